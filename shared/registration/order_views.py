"""Reading orders: from the current version of their view, and an order without a row from its home."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from shared.clock import Clock
from shared.eventsourcing import Event, Homes
from shared.grammar import NAME
from shared.readmodels import View, ViewKey, ViewReader
from shared.registration.order import OrderState, order_home
from shared.registration.views import ORDER_HOMES, OrdersByNumber, number_key, order_key, state_of

#: More digits are no number of an order.
_MOST_DIGITS: Final = 12
#: How long an order is shown as it was stored. Another instance may change it meanwhile.
_NEW: Final = timedelta(seconds=2)
#: Orders that a process remembers at most.
_MOST_NEW: Final = 10_000


def read_number(text: str) -> int | None:
    """Return the number of an order that a person typed, or None. Python takes more than 0 to 9 for digits, such as ²."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


class Aliases(Protocol):
    """Leads from an order's number to its home."""

    def find(self, number: int) -> str | None:
        """Return the home, or None. One request."""
        ...


@dataclass(frozen=True, slots=True)
class OrderView:
    """An order as its customer reads it. It holds no access code, and no hash of one."""

    order: OrderState
    #: Since version 2 of the view. None: the current version is the first one, or the order was read from its home.
    placed_at: datetime | None = None


class OrderViews:
    """Reads orders by their id or by their number."""

    def __init__(self, reader: ViewReader, log: Homes, aliases: Aliases, clock: Clock) -> None:
        self._reader, self._log, self._aliases, self._clock = reader, log, aliases, clock
        #: Orders that this process stored, with the time until which each is shown without a row.
        self._new: dict[str, tuple[OrderState, float]] = {}

    def find(self, order: str) -> OrderView | None:
        """Return an order, or None. One request, one more in version 2, and one more if there is no row.

        Without a row nothing of the order was projected. So one that was stored here just now is shown as it was stored.
        """
        return self.find_row(order) or self.find_new(order) or self._read_home(order_home(order))

    def remember(self, order: OrderState) -> None:
        """Show an order for a moment as this process has stored it: its customer looks next, and a row comes later."""
        if len(self._new) >= _MOST_NEW:
            self._new.clear()
        self._new[order.order] = order, self._clock.monotonic() + _NEW.total_seconds()

    def forget(self, order: str) -> None:
        """Show an order no more as it was stored: it was changed."""
        self._new.pop(order, None)

    def look_up(self, typed: str) -> OrderView | None:
        """Return the order with this number or this id, or None. A name that no order can have costs no request."""
        number = read_number(typed)
        if number is not None:
            return self.find_numbered(number)
        return self.find(typed) if NAME.fullmatch(typed) and not typed.isdigit() else None

    def find_row(self, order: str) -> OrderView | None:
        """Return an order if it has a row yet. One request, one more in version 2."""
        found = self._reader.find(lambda version: order_key(order) if version == 1 else self._number_key(order))
        return _view(found.view) if found and found.view else None

    def find_numbered(self, number: int) -> OrderView | None:
        """Return the order with this number, or None. One request in version 2, and before it one more for the alias.

        A number that was drawn in vain has an alias all the same, which leads to no order or to one with another number.
        """
        home: str | None = None

        def key_of(version: int) -> ViewKey | None:
            nonlocal home
            if version > 1:
                return number_key(number)
            home = self._aliases.find(number)
            return order_key(home.removeprefix(ORDER_HOMES)) if home else None

        found = self._reader.find(key_of)
        if found and found.view:
            view: OrderView | None = _view(found.view)
        else:
            home = home or self._aliases.find(number)
            view = self._read_home(home) if home else None
        return view if view and view.order.number == number else None

    def find_new(self, order: str) -> OrderView | None:
        """Return an order that this process stored just now. No request."""
        found, until = self._new.get(order, (None, 0.0))
        return OrderView(found) if found and self._clock.monotonic() < until else None

    def _number_key(self, order: str) -> ViewKey | None:
        head = self._log.read_head(order_home(order))
        return number_key(int(head.fields["number"])) if head else None

    def _read_home(self, home: str) -> OrderView | None:
        view = fold_home(self._log.read_tail(home, 0))
        return _view(view) if view else None


def fold_home(events: Sequence[Event]) -> View | None:
    """Return the view that the events of an order's home make."""
    view: View | None = None
    for event in events:
        # As in the messages that projectors get.
        view = OrdersByNumber().fold(view, event) if event.is_public else view
    return view


def _view(view: View) -> OrderView:
    placed_at = view.get("placed_at")
    return OrderView(state_of(view), None if placed_at is None else datetime.fromisoformat(placed_at))
