"""Every event of the two streams, as typed data. `stored_events` makes events of them, and reads them again.

A conference's stream says what happened to its seats, an order's stream what happened to the order. Both are public
formats: `docs/registration.md` lists them.
"""

from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct

#: Numbers of seats by their type.
SeatNumbers: TypeAlias = dict[str, int]
#: Prices of one seat by its type.
SeatPrices: TypeAlias = dict[str, Decimal]


class Offer(Struct, frozen=True):
    """One seat type of a conference, after the event."""

    price: Decimal
    quota: int
    remaining: int


class ConferenceSet(Struct, frozen=True):
    """A conference got these seat types, or these prices."""

    seats: dict[str, Offer]


class SeatsAdded(Struct, frozen=True):
    """The quota of these types grew. Quota and remaining seats are those after it."""

    seats: SeatNumbers
    quota: SeatNumbers
    remaining: SeatNumbers


class SeatsRemoved(Struct, frozen=True):
    """The quota of these types fell. Only seats that were available are removed."""

    seats: SeatNumbers
    quota: SeatNumbers
    remaining: SeatNumbers


class SeatsReserved(Struct, frozen=True):
    """A reservation holds these seats now, perhaps fewer than were wanted, perhaps no seat. It replaces the former one."""

    order: str
    granted: SeatNumbers
    #: Of every type that the reservation touched.
    remaining: SeatNumbers
    not_after: datetime


class ReservationRefused(Struct, frozen=True):
    """A reservation names a seat type that the conference does not have. Seats that it held before stay held."""

    order: str
    reason: str
    #: The unknown types.
    types: list[str]
    not_after: datetime


class ReservationCancelled(Struct, frozen=True):
    """A reservation ended, and its seats are available again."""

    order: str
    released: SeatNumbers
    remaining: SeatNumbers
    not_after: datetime


class ReservationConfirmed(Struct, frozen=True):
    """A reservation ended: its seats are sold."""

    order: str
    confirmed: SeatNumbers
    remaining: SeatNumbers
    not_after: datetime


class GenerationKept(Struct, frozen=True):
    """The end of a reservation came before the reservation. Its generation is kept, so that the late one is skipped."""

    order: str
    not_after: datetime


class OrderLine(Struct, frozen=True):
    """One seat type of an order."""

    seats: int
    price: Decimal
    amount: Decimal


class OrderPlaced(Struct, frozen=True):
    """An order is stored and has its number. Held: it waits behind a gate, and its window has not begun."""

    order: str
    number: int
    conference: str
    seats: SeatNumbers
    #: Of the types it wants. They stay its prices.
    prices: SeatPrices
    #: The end of the window; None while it is held.
    expires_at: datetime | None = None


class OrderTotalsCalculated(Struct, frozen=True):
    """The total of the seats that it wants, or of those that it has."""

    lines: dict[str, OrderLine]
    total: Decimal


class OrderStarted(Struct, frozen=True):
    """A held order was released."""

    expires_at: datetime


class OrderUpdated(Struct, frozen=True):
    """The customer wants other seats."""

    seats: SeatNumbers
    #: Of the types that it wants now.
    prices: SeatPrices


class OrderReserved(Struct, frozen=True):
    """All seats that it wants are reserved."""

    granted: SeatNumbers


class OrderPartiallyReserved(Struct, frozen=True):
    """Some of the seats that it wants are reserved, or no seat."""

    granted: SeatNumbers


class OrderRejected(Struct, frozen=True):
    """It ended without seats."""

    reason: str


class OrderExpired(Struct, frozen=True):
    """Its window passed without a payment."""


class OrderConfirmed(Struct, frozen=True):
    """Its seats are sold. This is final."""

    seats: SeatNumbers
    total: Decimal


class PaymentReceived(Struct, frozen=True):
    """A payment came that counts for the order."""

    id: str
    amount: Decimal


class PaymentUnsettled(Struct, frozen=True):
    """A payment came that confirms nothing. It is kept for a person to settle, and nothing is refunded."""

    id: str
    amount: Decimal
    reason: str


class PaymentRejected(Struct, frozen=True):
    """The bank refused a payment. The customer may pay again."""

    id: str


class ReplySkipped(Struct, frozen=True):
    """A reply or a timeout changed nothing: its kind, and its class."""

    reply: str
    message: str


Body: TypeAlias = (
    ConferenceSet
    | SeatsAdded
    | SeatsRemoved
    | SeatsReserved
    | ReservationRefused
    | ReservationCancelled
    | ReservationConfirmed
    | GenerationKept
    | OrderPlaced
    | OrderTotalsCalculated
    | OrderStarted
    | OrderUpdated
    | OrderReserved
    | OrderPartiallyReserved
    | OrderRejected
    | OrderExpired
    | OrderConfirmed
    | PaymentReceived
    | PaymentUnsettled
    | PaymentRejected
    | ReplySkipped
)
