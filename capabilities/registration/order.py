"""An order: all that its events say. The decisions about it are those of its process, in `order_process`.

Bodies to stored events and back: the kinds, the format, and which are part of the causal story only.

Every event of the two streams, as typed data. `event_of` makes events of them.

A conference's stream says what happened to its seats, an order's stream what happened to the order. Both are public
formats: `docs/registration.md` lists them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias, get_args

import msgspec
from msgspec import Struct

from capabilities.registration.reasons import OrderReason
from shared.errors import LaterFormatError
from shared.processes import Event
from shared.refusals import refuse
from shared.versions import convert

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


FORMAT: Final = 1
#: The causal story only.
_PRIVATE: Final = (GenerationKept, PaymentRejected, ReplySkipped)
#: By its kind, which is the class's name with underscores.
BODIES: Final[Mapping[str, type[Body]]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", body.__name__).lower(): body for body in get_args(Body)
}
#: What subscribers of the topics get.
PUBLIC: Final = tuple(kind for kind, body in BODIES.items() if body not in _PRIVATE)
_KINDS: Final = {body: kind for kind, body in BODIES.items()}


def event_of(body: Body, at: datetime, *, command: str = "", generation: int = 0) -> Event:
    """Return the event to store."""
    return Event(
        kind=_KINDS[type(body)],
        body=msgspec.to_builtins(body),
        at=at,
        command=command,
        generation=generation,
        format=FORMAT,
        is_public=not isinstance(body, _PRIVATE),
    )


def body_of(event: Event) -> Body:
    """Return the body of a stored event, or raise LaterFormatError for one that a newer app wrote."""
    return convert(event.body, check_format(event))


def check_format(event: Event) -> type[Body]:
    """Return the type of an event's body, or raise LaterFormatError for one that a newer app wrote."""
    kind = BODIES.get(event.kind)
    if kind is None or event.format > FORMAT:
        raise LaterFormatError(
            f"could not read event {event.version} of kind {event.kind!r} in format {event.format}: this program knows "
            f"format {FORMAT} of {len(BODIES)} kinds; update the app. The home is unchanged"
        )
    return kind


NOTHING: Final = Decimal("0.00")
#: The name of the aggregate in the heads of orders' homes, and the fields of the order's number and content there.
AGGREGATE: Final = "order"
NUMBER, CONTENT = "number", "content_hash"
_HOME: Final = "order-"


class OrderPhase(StrEnum):
    """How far an order is, as its customer reads it."""

    HELD = "held"
    PLACED = "placed"
    RESERVED = "reserved"
    PARTIALLY_RESERVED = "partially_reserved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CONFIRMED = "confirmed"


@dataclass(frozen=True, slots=True)
class UnsettledPayment:
    """A payment that confirmed nothing. A person settles it."""

    id: str
    amount: Decimal
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class OrderState:
    """One order after its events."""

    order: str
    number: int
    conference: str
    phase: OrderPhase
    requested: Mapping[str, int]
    prices: Mapping[str, Decimal]
    expires_at: datetime | None = None
    #: The seats of the last answer, without zeros.
    reserved: Mapping[str, int] = field(default_factory=dict)
    #: Of the seats that it wants, or of those that it has.
    total: Decimal = NOTHING
    paid: PaymentReceived | None = None
    unsettled: tuple[UnsettledPayment, ...] = ()
    #: Why it was rejected.
    reason: str = ""
    #: How many replies were skipped and stored.
    skipped: int = 0
    #: The version of the home, and that of the last event that others see: the ETag.
    stream_version: int = 0
    version: int = 0


def order_home(order: str) -> str:
    """Return the key of an order's home."""
    return _HOME + order


def fold_order(state: OrderState | None, event: Event) -> OrderState | None:
    """Return the order after the event. Before its first one there is no order."""
    body = body_of(event)
    if isinstance(body, OrderPlaced):
        state = _open(body)
    elif state is not None:
        state = _change(state, body, event)
    if state is None:
        return None
    here = event.version or state.stream_version + 1
    return replace(state, stream_version=here, version=here if event.is_public else state.version)


def calculate(seats: Mapping[str, int], prices: Mapping[str, Decimal]) -> OrderTotalsCalculated:
    """Return the lines and the total of these seats, exact, with two digits."""
    lines = {name: OrderLine(number, prices[name], number * prices[name]) for name, number in sorted(seats.items())}
    return OrderTotalsCalculated(lines, sum((line.amount for line in lines.values()), NOTHING))


def check_seats(seats: Mapping[str, int], most: int) -> None:
    """Refuse more seats of one type than an order may have."""
    for name, number in seats.items():
        if number > most:
            raise refuse(OrderReason.TOO_MANY_SEATS, f"it wants {number} of seat type {name!r}, the limit is {most}")


def price_of(seats: Mapping[str, int], prices: Mapping[str, Decimal], conference: str) -> dict[str, Decimal]:
    """Return the prices of the types that an order wants, or refuse a type that the conference does not have."""
    for name in seats:
        if name not in prices:
            raise refuse(OrderReason.UNKNOWN_SEAT_TYPE, f"conference {conference!r} has no seat type {name!r}")
    return {name: prices[name] for name in sorted(seats)}


def _open(body: OrderPlaced) -> OrderState:
    phase = OrderPhase.HELD if body.expires_at is None else OrderPhase.PLACED
    return OrderState(
        order=body.order,
        number=body.number,
        conference=body.conference,
        phase=phase,
        requested=body.seats,
        prices=body.prices,
        expires_at=body.expires_at,
    )


def _change(state: OrderState, body: Body, event: Event) -> OrderState:
    match body:
        case OrderTotalsCalculated(_, total):
            return replace(state, total=total)
        case OrderStarted(expires_at):
            return replace(state, phase=OrderPhase.PLACED, expires_at=expires_at)
        case OrderUpdated(seats, prices):
            phase = OrderPhase.HELD if state.phase is OrderPhase.HELD else OrderPhase.PLACED
            return replace(state, phase=phase, requested=seats, prices={**state.prices, **prices})
        case ReplySkipped():
            return replace(state, skipped=state.skipped + 1)
        case PaymentReceived() | PaymentUnsettled():
            return _pay(state, body, event.at)
        case _:
            return _answer(state, body)


def _pay(state: OrderState, body: PaymentReceived | PaymentUnsettled, at: datetime) -> OrderState:
    if isinstance(body, PaymentReceived):
        return replace(state, paid=body)
    unsettled = (*state.unsettled, UnsettledPayment(body.id, body.amount, body.reason, at))
    # One that was to confirm the order, and could not, counts no longer.
    return replace(state, unsettled=unsettled, paid=None if state.paid and state.paid.id == body.id else state.paid)


def _answer(state: OrderState, body: Body) -> OrderState:
    match body:
        case OrderReserved(granted):
            return replace(state, phase=OrderPhase.RESERVED, reserved=_without_zeros(granted))
        case OrderPartiallyReserved(granted):
            return replace(state, phase=OrderPhase.PARTIALLY_RESERVED, reserved=_without_zeros(granted))
        case OrderRejected(reason):
            return replace(state, phase=OrderPhase.REJECTED, reserved={}, reason=reason)
        case OrderExpired():
            return replace(state, phase=OrderPhase.EXPIRED, reserved={})
        case OrderConfirmed():
            return replace(state, phase=OrderPhase.CONFIRMED)
        case _:
            return state


def _without_zeros(seats: Mapping[str, int]) -> dict[str, int]:
    return {name: number for name, number in seats.items() if number}
