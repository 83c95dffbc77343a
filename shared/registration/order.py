"""An order: all that its events say. The decisions about it are those of its process, in `order_process`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final

from shared.eventsourcing import Event
from shared.refusals import Reason, refuse
from shared.registration.bodies import (
    Body,
    OrderConfirmed,
    OrderExpired,
    OrderLine,
    OrderPartiallyReserved,
    OrderPlaced,
    OrderRejected,
    OrderReserved,
    OrderStarted,
    OrderTotalsCalculated,
    OrderUpdated,
    PaymentReceived,
    PaymentUnsettled,
    ReplySkipped,
)
from shared.registration.stored_events import body_of

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
            raise refuse(Reason.TOO_MANY_SEATS, f"it wants {number} of seat type {name!r}, the limit is {most}")


def price_of(seats: Mapping[str, int], prices: Mapping[str, Decimal], conference: str) -> dict[str, Decimal]:
    """Return the prices of the types that an order wants, or refuse a type that the conference does not have."""
    for name in seats:
        if name not in prices:
            raise refuse(Reason.UNKNOWN_SEAT_TYPE, f"conference {conference!r} has no seat type {name!r}")
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
