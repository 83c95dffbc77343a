"""Reading conferences: an answer is kept for as long as the ladder allows, by the scarcest type of seats.

Reading orders: from the current version of their view, and an order without a row from its home.

The prices of a conference for a new order: from its view, which is younger than five seconds, or from its home.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from random import random
from typing import Any, Final, Protocol, TypeVar

from capabilities.registration import events as order_events
from capabilities.registration.order import OrderState, order_home
from capabilities.registration.order_messages import seats_home
from capabilities.registration.reasons import OrderReason
from capabilities.registration.seats import SeatsState
from capabilities.registration.views import ORDER_HOMES, Conferences, OrdersByNumber, number_key, order_key, state_of
from shared.clock import Clock
from shared.grammar import NAME
from shared.processes import Event, Homes, Mementos
from shared.readmodels import Answer, KeptAnswers, Ladder, Rung, View, ViewKey, ViewReader
from shared.refusals import refuse
from shared.telemetry import SILENT, Telemetry
from shared.versions import convert

#: Over 200 left: 5 minutes; 100 to 200: one minute; 30 to 99: 20 seconds; fewer: not at all.
SEATS_LADDER: Final = Ladder(
    (Rung(201, timedelta(minutes=5)), Rung(100, timedelta(minutes=1)), Rung(30, timedelta(seconds=20))),
    sold_out=timedelta(seconds=20),
)
#: The share of the decisions by kept answers that are checked with a fresh one.
CHECKED: Final = 0.05
_Decision = TypeVar("_Decision")


@dataclass(frozen=True, slots=True)
class SeatTypeView:
    """The seats of one type."""

    price: Decimal
    quota: int
    remaining: int


@dataclass(frozen=True, slots=True)
class ConferenceView:
    """A conference as customers read it."""

    conference: str
    seats: Mapping[str, SeatTypeView]
    #: A number that grows with every change of the values that it shows: its ETag.
    version: int

    @property
    def keep(self) -> timedelta:
        """How long this answer may be kept."""
        return SEATS_LADDER.keep(one.remaining for one in self.seats.values())

    def short_of(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Return the numbers of these seats that are left, if they are too few. Else nothing, also for unknown types."""
        left = {name: self.seats[name].remaining for name in wanted if name in self.seats}
        is_short = len(left) == len(wanted) and any(left[name] < number for name, number in wanted.items())
        return left if is_short else {}


class ConferenceViews:
    """Reads conferences. One per process. Several threads may use it."""

    def __init__(
        self,
        reader: ViewReader,
        answers: KeptAnswers[ConferenceView],
        telemetry: Telemetry = SILENT,
        draw: Callable[[], float] = random,
    ) -> None:
        self._reader, self._answers, self._telemetry, self._draw = reader, answers, telemetry, draw

    def find(self, conference: str, within: timedelta) -> Answer[ConferenceView]:
        """Return a conference, kept for no longer than `within` and than the ladder allows. One request, or none."""
        return self._answers.get(conference, within, lambda: self._read(conference))

    def decide(self, conference: str, judge: Callable[[ConferenceView | None], _Decision]) -> _Decision:
        """Return a decision by an answer that is kept for as long as the ladder allows.

        One of 20 decisions by a kept answer is made again by a fresh one. That one holds, and a metric counts both
        kinds: how often the ladder decides wrongly.
        """
        answer = self.find(conference, timedelta.max)
        decision = judge(answer.value)
        if not answer.is_kept or self._draw() >= CHECKED:
            return decision
        fresh = judge(self.find(conference, timedelta()).value)
        self._telemetry.add(order_events.KEPT_ANSWERS, outcome="same" if bool(fresh) == bool(decision) else "stale")
        return fresh

    def _read(self, conference: str) -> ConferenceView | None:
        key = Conferences().key(seats_home(conference), ())
        found = self._reader.find(lambda _version: key)
        return view_of(conference, found.view) if found and found.view else None


def view_of(conference: str, view: View) -> ConferenceView:
    """Return the conference of a row, without types of which the price has not arrived yet."""
    seats: Mapping[str, Mapping[str, Any]] = view["seats"]
    whole = {name: one for name, one in seats.items() if {"price", "quota", "remaining"} <= one.keys()}
    # Events may come in any order, so the newest version that it shows is no ETag: an older event may change it still.
    # Each value has the version of the event that said it, and that only grows.
    version = sum(number for one in whole.values() for name, number in one.items() if name.endswith("_at"))
    return ConferenceView(conference, convert(whole, dict[str, SeatTypeView]), version)


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
            raise refuse(OrderReason.UNKNOWN_CONFERENCE, f"the conference is called {conference!r}")
        return {name: one.price for name, one in types.items()}
