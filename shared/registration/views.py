"""The views that customers and operators read: of an order in two versions, and of a conference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from shared.registration.order import OrderPhase, UnsettledPayment


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderView:
    """An order as its customer reads it. It holds no access code, and no hash of one."""

    order: str
    number: int
    conference: str
    state: OrderPhase
    requested: Mapping[str, int]
    reserved: Mapping[str, int]
    total: Decimal
    paid: Decimal
    unsettled: Sequence[UnsettledPayment]
    #: Why it was rejected, or the empty text.
    reason: str
    #: The end of its window. None while it is held.
    expires_at: datetime | None
    #: The version of the last event of the order itself: its ETag.
    version: int
    #: The version of the home that this view shows, with the events that changed nothing for the customer.
    seen: int
    #: Since version 2 of the read model.
    placed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SeatTypeView:
    """The seats of one type."""

    price: Decimal
    quota: int
    remaining: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConferenceView:
    """A conference as customers read it."""

    conference: str
    seats: Mapping[str, SeatTypeView]
    #: The version of its home that this view shows: its ETag.
    version: int


class OrderViews(Protocol):
    """Reads orders: from the current version of the view, and an order without a row from its home."""

    def find(self, order: str) -> OrderView | None:
        """Return the view of an order, or None. One request if it has a row, else a second one."""
        ...

    def find_numbered(self, number: int) -> OrderView | None:
        """Return the view of the order with this number, or None."""
        ...


class ConferenceViews(Protocol):
    """Reads conferences."""

    def find(self, conference: str) -> ConferenceView | None:
        """Return the view of a conference, or None. One request."""
        ...
