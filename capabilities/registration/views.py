"""The views that customers and operators read: of an order in two versions, and of a conference.

The view of an order is folded by `fold_order`, as the order itself is. So a row says the same as the order's home.

Says whether the current views of homes show some events.

Tells an operator of payments that confirmed nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from capabilities.registration import events as order_events
from capabilities.registration.order import (
    ConferenceSet,
    OrderPlaced,
    OrderState,
    SeatsAdded,
    SeatsRemoved,
    body_of,
    fold_order,
)
from shared.processes import EVENT_SHARDS, Event, EventRange, Homes, decode_events, shard_of
from shared.readmodels import Model, View, ViewKey, ViewReader
from shared.telemetry import tell
from shared.versions import convert
from shared.watch import TickNeeds

ORDER_HOMES: Final = "order-"
SEATS_HOMES: Final = "seats-"
#: Fields of an order's state that count the private events, which no message brings.
_PRIVATE: Final = ("skipped", "stream_version")


class OrdersByOrder:
    """Orders by their id."""

    version = 1
    is_ordered = True

    def key(self, home: str, events: Sequence[Event]) -> ViewKey | None:  # noqa: ARG002 - of the protocol
        """Return the order's id, in the shard of its home: a message of events is of one shard."""
        return order_key(home.removeprefix(ORDER_HOMES))

    def fold(self, view: View | None, event: Event) -> View | None:
        """Return the order after the event."""
        state = fold_order(None if view is None else state_of(view), event)
        if state is None:
            return None
        return {name: value for name, value in msgspec.to_builtins(state).items() if name not in _PRIVATE}


class OrdersByNumber:
    """Orders by their number, with the time at which they were placed."""

    version = 2
    is_ordered = True
    _former = OrdersByOrder()

    def key(self, home: str, events: Sequence[Event]) -> ViewKey | None:  # noqa: ARG002 - of the protocol
        """Return the order's number, which its first event has."""
        placed = (body_of(event) for event in events if event.version == 1)
        return next((number_key(body.number) for body in placed if isinstance(body, OrderPlaced)), None)

    def fold(self, view: View | None, event: Event) -> View | None:
        """Return the order after the event."""
        after = self._former.fold(view, event)
        if after is None:
            return None
        return {**after, "placed_at": msgspec.to_builtins(event.at) if view is None else view["placed_at"]}


class Conferences:
    """Conferences by their id. Events may come in any order: each value has the version of the event that said it."""

    version = 1
    is_ordered = False

    def key(self, home: str, events: Sequence[Event]) -> ViewKey | None:  # noqa: ARG002 - of the protocol
        """Return the conference's id, in the shard of its home."""
        return ViewKey(shard_of(home), home.removeprefix(SEATS_HOMES))

    def fold(self, view: View | None, event: Event) -> View | None:
        """Return the conference after the event."""
        seats = {} if view is None else dict(view["seats"])
        for name, values in _values_of(event).items():
            known = seats.get(name, {})
            newer = {field: value for field, value in values.items() if event.version > known.get(f"{field}_at", 0)}
            seats[name] = {**known, **newer, **{f"{field}_at": event.version for field in newer}}
        return {"seats": seats}


def _values_of(event: Event) -> Mapping[str, Mapping[str, Any]]:
    """Return the values that an event says, by seat type."""
    body = body_of(event)
    if isinstance(body, ConferenceSet):
        return {name: msgspec.to_builtins(offer) for name, offer in body.seats.items()}
    quota = body.quota if isinstance(body, SeatsAdded | SeatsRemoved) else {}
    remaining = getattr(body, "remaining", {})
    return {
        name: {
            field: numbers[name] for field, numbers in (("quota", quota), ("remaining", remaining)) if name in numbers
        }
        for name in {**quota, **remaining}
    }


ORDER_MODEL: Final = Model("orders", ORDER_HOMES, (OrdersByOrder(), OrdersByNumber()))
CONFERENCE_MODEL: Final = Model("conferences", SEATS_HOMES, (Conferences(),))
#: Each by its name.
READ_MODELS: Final = {model.name: model for model in (ORDER_MODEL, CONFERENCE_MODEL)}


def order_key(order: str) -> ViewKey:
    """Return the key of an order's row in version 1."""
    return ViewKey(shard_of(ORDER_HOMES + order), order)


def number_key(number: int) -> ViewKey:
    """Return the key of an order's row in version 2. Twelve digits, so that the rows sort as the numbers do."""
    return ViewKey(number % EVENT_SHARDS, f"{number:012}")


def state_of(view: View) -> OrderState:
    """Return the order of a view."""
    return convert({name: value for name, value in view.items() if name != "placed_at"}, OrderState)


class ShownModel(NamedTuple):
    """A read model with its reader."""

    model: Model
    reader: ViewReader


def is_shown(homes: Homes, shown: ShownModel, events: EventRange) -> bool:
    """Return true if the view of their home shows these events, or if they are of no home of the model."""
    if not events.home.startswith(shown.model.homes):
        return True
    current = 0

    def key_of(version: int) -> ViewKey | None:
        nonlocal current
        current = version
        projection = shown.model.projection(version)
        # The key may depend on the first event of a home that is short.
        return projection.key(events.home, homes.read_tail(events.home, 0) if projection.is_ordered else events.events)

    row = shown.reader.find(key_of)
    projection = shown.model.projection(current)
    if row is None or projection.is_ordered:
        return row is not None and row.seen >= events.last
    return all(projection.fold(row.view, event) == row.view for event in events.events)


_UNSETTLED: Final = "payment_unsettled"


def tell_unsettled(bodies: Sequence[bytes], needs: TickNeeds) -> None:
    """Log each unsettled payment in these messages of `order-events`, by its id and its reason, and note the need.

    A person ends it: money has to go back. If its event is delivered again, the need is noted again.
    """
    ranges = [one for body in bodies for one in decode_events(body)]
    for home, event in ((one.home, event) for one in ranges for event in one.events):
        if event.kind == _UNSETTLED:
            payment, reason = event.body["id"], event.body["reason"]
            tell(order_events.ORDER_UNSETTLED, home=home, payment=payment, reason=reason)
            found = f"payment {payment} confirmed nothing: {reason}"
            needs.stand(order_events.ORDER_UNSETTLED_NEED, home.removeprefix(ORDER_HOMES), found, is_grave=False)
