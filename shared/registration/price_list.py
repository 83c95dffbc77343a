"""The prices of a conference for a new order: from its view, which is younger than five seconds, or from its home."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Final

from shared.eventsourcing import Mementos
from shared.refusals import Reason, refuse
from shared.registration.conference_views import ConferenceViews
from shared.registration.seat_commands import seats_home
from shared.registration.seats import SeatsState

#: How old the prices of an order may be.
YOUNG: Final = timedelta(seconds=5)


class PriceList:
    """Finds prices."""

    def __init__(self, views: ConferenceViews, mementos: Mementos[SeatsState]) -> None:
        self._views, self._mementos = views, mementos

    def find(self, conference: str) -> Mapping[str, Decimal]:
        """Return the price of each seat type. Raises RefusedError for an unknown conference."""
        view = self._views.find(conference, YOUNG).value
        if view is not None and view.seats:
            return {name: one.price for name, one in view.seats.items()}
        # The view of a conference that was made just now may not be there yet.
        types = self._mementos.read(seats_home(conference)).state.types
        if not types:
            raise refuse(Reason.UNKNOWN_CONFERENCE, f"the conference is called {conference!r}")
        return {name: one.price for name, one in types.items()}
