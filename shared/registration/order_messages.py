"""The messages to the process of an order: placed, started, changed, paid, answered, expired. All are typed data."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from shared.decoding import convert
from shared.eventsourcing import Event
from shared.processes import Incoming
from shared.registration.bodies import ReservationRefused, SeatNumbers, SeatPrices, SeatsReserved
from shared.registration.order import order_home
from shared.registration.stored_events import check_format

#: The name of the one timeout of an order.
EXPIRE: Final = "expire"


class PaymentOutcome(StrEnum):
    """How a payment ended."""

    COMPLETED = "completed"
    REJECTED = "rejected"


class NewOrder(Struct, frozen=True, kw_only=True):
    """A customer orders seats. Held: the order waits behind a gate."""

    order: str
    number: int
    conference: str
    seats: SeatNumbers
    #: Of every type of the conference, as the customer was shown.
    prices: SeatPrices
    is_held: bool = False


class StartOrder(Struct, frozen=True, kw_only=True):
    """The gate of a held order was opened. It names the seats, so that an order starts without being read."""

    order: str
    number: int
    conference: str
    seats: SeatNumbers


class Update(Struct, frozen=True, kw_only=True):
    """The customer wants other seats, in place of those of this version of the order."""

    version: int
    seats: SeatNumbers
    prices: SeatPrices


class Pay(Struct, frozen=True, kw_only=True):
    """A payment ended."""

    outcome: PaymentOutcome
    amount: Decimal


class Expire(Struct, frozen=True):
    """The window and the buffer behind it are over."""


Input: TypeAlias = NewOrder | StartOrder | Update | Pay | Expire | SeatsReserved | ReservationRefused
_KINDS: Final[Mapping[str, type[Input]]] = {
    "place": NewOrder,
    "start": StartOrder,
    "update": Update,
    "payment": Pay,
    EXPIRE: Expire,
    "seats_reserved": SeatsReserved,
    "reservation_refused": ReservationRefused,
}
_NAMES: Final = {input_: name for name, input_ in _KINDS.items()}
#: The events of seats that answer an order, by which the subscription of the processes filters.
REPLIES: Final = ("seats_reserved", "reservation_refused")


def incoming(body: Input, at: datetime, id_: str = "") -> Incoming:
    """Return the message for the runtime. An outside message has the id that its sender gave."""
    return Incoming(kind=_NAMES[type(body)], body=msgspec.to_builtins(body), at=at, id=id_)


def read_reply(event: Event) -> tuple[str, Incoming] | None:
    """Return the home that an event of seats answers, and the message to it, or None if it answers no order. Raises LaterFormatError."""
    if event.kind not in REPLIES:
        return None
    check_format(event)
    message = Incoming(kind=event.kind, body=event.body, at=event.at, id=event.command, generation=event.generation)
    return order_home(event.body["order"]), message


def read_input(message: Incoming) -> Input:
    """Return the typed body of a message. Raises KeyError for a kind that no order knows."""
    return convert(message.body, _KINDS[message.kind])


def hash_content(content: Struct) -> str:
    """Return the SHA-256 of a message's content. Two messages of the same content have the same one."""
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()
