"""The messages of customers, shops and banks, read as strictly as submissions are. `docs/formats.md` has them.

The texts are checked here, the numbers too. What depends on an order or a conference is decided where its state is.

Their fields stand here as their senders write them.

Where events and commands of registration travel, and the queue of each kind that customers, shops and banks send.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from capabilities.registration.access_codes import ACCESS_CODE, CODE_HASH, CodeHash
from capabilities.registration.entities import (
    CONFERENCES,
    ORDER_EVENTS,
    ORDERS,
    PAYMENTS,
    SEATS_EVENTS,
    STARTS,
    STARTS_IN_ORDER,
    TIMEOUTS,
)
from capabilities.registration.order import SeatNumbers
from capabilities.registration.order_messages import (
    SEATS_HOMES,
    AddSeats,
    CloseConference,
    PaymentOutcome,
    RemoveSeats,
    SeatType,
    SetConference,
    hash_content,
)
from capabilities.registration.reasons import OrderReason
from shared.azure import Destination
from shared.grammar import NAME, check_name
from shared.payload import Envelope, Limits, MessageHeader, open_envelope, read_bare
from shared.processes import Command, ReceiverLanes, shard_of
from shared.refusals import Reason, refuse


class SeatTypeFields(Struct, frozen=True, forbid_unknown_fields=True):
    """Price and quota of one seat type."""

    price: str
    quota: int


class ConferenceFields(MessageHeader, frozen=True):
    """`conference`."""

    id: str
    conference: str
    seats: dict[str, SeatTypeFields]


class CloseFields(MessageHeader, frozen=True):
    """`close_conference`."""

    id: str
    conference: str


class ResizeFields(MessageHeader, frozen=True):
    """`add_seats` and `remove_seats`."""

    id: str
    conference: str
    seats: dict[str, int]


# A request has the same fields without those of the header. Two bases of msgspec do not mix.
class OrderRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of a request that places an order."""

    order: str
    conference: str
    seats: dict[str, int]
    access_code: str | None = None
    gate: str | None = None


class PlaceFields(MessageHeader, frozen=True):
    """`place_order`."""

    order: str
    conference: str
    seats: dict[str, int]
    access_code: str | None = None
    #: In a message that was parked, in place of the code.
    access_code_hash: str | None = None
    gate: str | None = None


class ChangeRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body of a request that changes an order."""

    seats: dict[str, int]


class UpdateFields(MessageHeader, frozen=True):
    """`update_order`."""

    id: str
    order: str
    version: int
    seats: dict[str, int]
    #: Left out only in a message that was parked, which changes nothing any more.
    access_code: str | None = None


class PaymentFields(MessageHeader, frozen=True):
    """`payment`."""

    id: str
    order: str
    outcome: str
    amount: str


#: Seat types in one message. Every event of seats has the numbers of the types that it touches.
MOST_TYPES: Final = 50
#: Seats of one type.
MOST_QUOTA: Final = 1_000_000
MOST_VERSION: Final = 2**31 - 1
#: Two digits behind the point, so that no total is ever rounded.
_PRICE: Final = re.compile(r"(?:0|[1-9][0-9]{0,8})\.[0-9]{2}")
R = TypeVar("R", AddSeats, RemoveSeats)


class PlaceOrder(Struct, frozen=True, kw_only=True):
    """A new order. Without a gate it starts at once. Without an access code Sluice makes one."""

    order: str
    conference: str
    seats: SeatNumbers
    #: Its hash, if the message was parked before: no code is stored.
    access_code: str | CodeHash | None = None
    gate: str | None = None


class UpdateOrder(Struct, frozen=True, kw_only=True):
    """Other seats for an order, in place of those of this version."""

    id: str
    order: str
    version: int
    seats: SeatNumbers
    #: None: it was parked before, and no code is stored.
    access_code: str | None = None


class Payment(Struct, frozen=True, kw_only=True):
    """A payment for an order ended."""

    id: str
    order: str
    outcome: PaymentOutcome
    amount: Decimal


OrderMessage: TypeAlias = SetConference | AddSeats | RemoveSeats | CloseConference | PlaceOrder | UpdateOrder | Payment


def read_order_message(body: bytes | str, limits: Limits) -> OrderMessage:
    """Return the message, or raise RefusedError with the reason."""
    envelope = open_envelope(body, limits)
    read = _READERS.get(envelope.kind)
    if read is None:
        found = f"its kind is {envelope.kind[:50]!r}, registration takes {', '.join(_READERS)}"
        raise refuse(Reason.UNKNOWN_KIND, found)
    return read(envelope)


def read_place_order(body: bytes, limits: Limits) -> PlaceOrder:
    """Return the order of a request: the fields of `place_order`, without the envelope."""
    return _read_order(read_bare(body, OrderRequest, limits))


def read_change(body: bytes, limits: Limits) -> SeatNumbers:
    """Return the seats of a request that changes an order: its only field is `seats`."""
    return _read_seats(read_bare(body, ChangeRequest, limits).seats)


def check_order(order: str) -> str:
    """Return the sender's id of an order, or refuse it. One of digits only would look like an order's number."""
    if not NAME.fullmatch(order) or order.isdigit():
        raise refuse(OrderReason.BAD_ORDER, f"the order is called {order[:120]!r}")
    return order


def check_access_code(code: str) -> str:
    """Return a customer's access code, or refuse it. The code itself is in no error."""
    if not ACCESS_CODE.fullmatch(code):
        raise refuse(OrderReason.BAD_ACCESS_CODE, f"it has {len(code)} characters")
    return code


def content_hash(message: OrderMessage) -> str:
    """Return the SHA-256 of the content. The access code is left out: a plain hash would give it away.

    To compare two orders, compare the salted hashes of their codes as well.
    """
    shown = msgspec.structs.replace(message, access_code=None) if isinstance(message, PlaceOrder) else message
    return hash_content(shown)


def _read_conference(envelope: Envelope) -> SetConference:
    fields = envelope.read(ConferenceFields)
    _check_types(fields.seats)
    seats = {
        name: SeatType(_read_price(f"the price of {name!r}", one.price), _check_number("the quota", name, one.quota, 0))
        for name, one in fields.seats.items()
    }
    return SetConference(id=check_name("id", fields.id), conference=_check_conference(fields.conference), seats=seats)


def _read_resize(made: type[R], envelope: Envelope) -> R:
    fields = envelope.read(ResizeFields)
    conference = _check_conference(fields.conference)
    return made(id=check_name("id", fields.id), conference=conference, seats=_read_seats(fields.seats))


def _read_close(envelope: Envelope) -> CloseConference:
    fields = envelope.read(CloseFields)
    return CloseConference(id=check_name("id", fields.id), conference=_check_conference(fields.conference))


def _read_order(fields: OrderRequest | PlaceFields) -> PlaceOrder:
    if fields.access_code is not None:
        check_access_code(fields.access_code)
    return PlaceOrder(
        order=check_order(fields.order),
        conference=_check_conference(fields.conference),
        seats=_read_seats(fields.seats),
        access_code=fields.access_code,
        gate=None if fields.gate is None else check_name("gate", fields.gate),
    )


def _read_place(envelope: Envelope) -> PlaceOrder:
    fields = envelope.read(PlaceFields)
    order, hashed = _read_order(fields), fields.access_code_hash
    if hashed is None:
        return order
    if order.access_code is not None or not CODE_HASH.fullmatch(hashed):
        raise refuse(OrderReason.BAD_ACCESS_CODE, "it has a code and a hash of one, or a hash that Sluice did not make")
    return msgspec.structs.replace(order, access_code=CodeHash(hashed))


def _read_update(envelope: Envelope) -> UpdateOrder:
    fields = envelope.read(UpdateFields)
    if not 1 <= fields.version <= MOST_VERSION:
        raise refuse(Reason.WRONG_TYPE, f"version is {fields.version}, expected 1 to {MOST_VERSION}")
    if fields.access_code is not None:
        check_access_code(fields.access_code)
    return UpdateOrder(
        id=check_name("id", fields.id),
        order=check_order(fields.order),
        version=fields.version,
        seats=_read_seats(fields.seats),
        access_code=fields.access_code,
    )


def _read_payment(envelope: Envelope) -> Payment:
    fields = envelope.read(PaymentFields)
    if fields.outcome not in _OUTCOMES:
        raise refuse(OrderReason.BAD_OUTCOME, f"the outcome is {fields.outcome[:50]!r}")
    return Payment(
        id=check_name("id", fields.id),
        order=check_order(fields.order),
        outcome=PaymentOutcome(fields.outcome),
        amount=_read_price("the amount", fields.amount),
    )


def _check_conference(name: str) -> str:
    return check_name("conference", name)


def _check_types(seats: Mapping[str, Any]) -> None:
    if not seats:
        raise refuse(OrderReason.BAD_SEATS, "it names no seat type")
    if len(seats) > MOST_TYPES:
        raise refuse(OrderReason.TOO_MANY_TYPES, f"it names {len(seats)} seat types, the limit is {MOST_TYPES}")
    for name in seats:
        check_name("seat type", name)


def _read_seats(seats: SeatNumbers) -> SeatNumbers:
    _check_types(seats)
    return {name: _check_number("the number", name, seats[name], 1) for name in sorted(seats)}


def _check_number(called: str, name: str, number: int, least: int) -> int:
    if not least <= number <= MOST_QUOTA:
        raise refuse(
            OrderReason.BAD_SEATS, f"{called} of {name!r} is {str(number)[:30]}, expected {least} to {MOST_QUOTA}"
        )
    return number


def _read_price(called: str, text: str) -> Decimal:
    if not _PRICE.fullmatch(text):
        raise refuse(OrderReason.BAD_PRICE, f"{called} is {text[:50]!r}")
    return Decimal(text)


_OUTCOMES: Final = {outcome.value for outcome in PaymentOutcome}
_READERS: Final[Mapping[str, Callable[[Envelope], OrderMessage]]] = {
    "conference": _read_conference,
    "add_seats": partial(_read_resize, AddSeats),
    "remove_seats": partial(_read_resize, RemoveSeats),
    "close_conference": _read_close,
    "place_order": _read_place,
    "update_order": _read_update,
    "payment": _read_payment,
}


#: The destination of held orders, as their rows name it: an instance of 0.3.0 releases them too.
STARTS_QUEUE: Final = Destination("bus", STARTS)
#: The queue that they go by.
IN_ORDER_QUEUE: Final = Destination("bus", STARTS_IN_ORDER)
TIMEOUTS_QUEUE: Final = Destination("bus", TIMEOUTS)
ORDERS_QUEUE: Final = Destination("queue", ORDERS)
PAYMENTS_QUEUE: Final = Destination("bus", PAYMENTS)
CONFERENCES_QUEUE: Final = Destination("bus", CONFERENCES)
_ORDER_EVENTS: Final = Destination("topic", ORDER_EVENTS)
_SEATS_EVENTS: Final = Destination("topic", SEATS_EVENTS)


class OrderRoutes:
    """The routes. Commands of orders to seats go by lanes. Those of publishers are called in this process."""

    def __init__(self, lanes: Sequence[str]) -> None:
        self._lanes = ReceiverLanes(lanes)

    def topic_of(self, home: str) -> tuple[Destination, str]:
        """Return the topic of a home's events, and their session: the conference, or the shard of an order."""
        if home.startswith(SEATS_HOMES):
            return _SEATS_EVENTS, home.removeprefix(SEATS_HOMES)
        return _ORDER_EVENTS, str(shard_of(home))

    def queue_of(self, command: Command) -> Destination:
        """Return the lane of a command's conference."""
        return self._lanes.of(command.to)


def queue_of(message: OrderMessage) -> Destination:
    """Return the one queue of a message's kind. Who may send to a queue may send its kinds and no other."""
    if isinstance(message, PlaceOrder | UpdateOrder):
        return ORDERS_QUEUE
    return PAYMENTS_QUEUE if isinstance(message, Payment) else CONFERENCES_QUEUE


def read_from(queue: str, body: bytes) -> OrderMessage:
    """Return the message that came by a queue. Raises RefusedError, also if the senders of the queue may not send its kind."""
    message = read_order_message(body, Limits())
    if str(right := queue_of(message)) != queue:
        raise refuse(OrderReason.WRONG_QUEUE, f"it came by queue {queue!r}, its kind belongs on {str(right)!r}")
    return message
