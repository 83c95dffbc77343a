"""Checks the seats of all conferences: reservations that should have ended, and balances that do not hold.

It only tells. A seat that it freed by itself might be sold twice.
"""

from collections.abc import Callable, Iterator
from functools import partial

from shared.clock import Clock
from shared.errors import SeatsBalanceError
from shared.eventsourcing import Homes, Mementos
from shared.registration.seat_commands import SEATS_HOMES
from shared.registration.seats import SeatsState, check_balance, overdue
from shared.retry import all_tried
from shared.telemetry import describe_error, events, tell


class SeatCheck:
    """Checks the conferences of one installation."""

    def __init__(self, homes: Homes, seats: Mementos[SeatsState], clock: Clock) -> None:
        self._homes, self._seats, self._clock = homes, seats, clock

    def run(self, until: float) -> None:
        """Check each conference, in two requests. Begin none after `until`, in the clock's monotonic seconds."""
        # A conference that cannot be read stops no other. The first error is raised at the end, and the tick logs it.
        all_tried(self._checks(until), lambda _error: None)

    def _checks(self, until: float) -> Iterator[Callable[[], object]]:
        cursor: str | None = ""
        while cursor is not None:
            page = self._homes.heads(SEATS_HOMES, cursor)
            for home, _ in page.heads:
                if self._clock.monotonic() >= until:
                    return
                yield partial(self._check, home)
            cursor = page.cursor

    def _check(self, home: str) -> None:
        try:
            state = self._seats.read(home).state
        except SeatsBalanceError as error:
            tell(events.SEATS_UNEVEN, home=home, types=[], error=describe_error(error))
            return
        if types := check_balance(state):
            tell(events.SEATS_UNEVEN, home=home, types=types, error="")
        if late := sorted(overdue(state, self._clock.now())):
            tell(events.SEATS_OVERDUE, home=home, reservations=len(late), first=late[0])
