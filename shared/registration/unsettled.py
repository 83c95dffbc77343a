"""Tells an operator of payments that confirmed nothing."""

from collections.abc import Sequence
from typing import Final

from shared.messaging import decode_events
from shared.telemetry import events, tell

_UNSETTLED: Final = "payment_unsettled"


def tell_unsettled(bodies: Sequence[bytes]) -> None:
    """Log each unsettled payment in these messages of `order-events`, by its id and its reason."""
    ranges = [one for body in bodies for one in decode_events(body)]
    for home, event in ((one.home, event) for one in ranges for event in one.events):
        if event.kind == _UNSETTLED:
            tell(events.ORDER_UNSETTLED, home=home, payment=event.body["id"], reason=event.body["reason"])
