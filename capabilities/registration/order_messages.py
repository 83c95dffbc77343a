"""The messages to the process of an order: placed, started, changed, paid, answered, expired. All are typed data.

The commands to a conference's seats, as typed data, and the way to the bus and back.

Reservations come from orders: the reservation's id is the order's. The others come from the publishers of a conference.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from capabilities.registration.order import (
    ReservationRefused,
    SeatNumbers,
    SeatPrices,
    SeatsReserved,
    check_format,
    order_home,
)
from shared.errors import LaterFormatError
from shared.processes import Command, Event, Incoming
from shared.versions import convert

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


class StartOrder(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The gate of a held order was opened. It names the seats, so that an order starts without being read."""

    order: str
    number: int
    conference: str
    seats: SeatNumbers
    #: The order before it on the roll, for the same conference. Empty: none is known.
    after: str = ""


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


#: Before the id of a conference, in the key of its home.
SEATS_HOMES: Final = "seats-"


class OrderCommand(Struct, frozen=True, kw_only=True):
    """A command about the reservation of one order."""

    order: str
    generation: int
    #: The end of the order's window. A reserve after it changes nothing.
    not_after: datetime
    id: str = ""


class Reserve(OrderCommand, frozen=True, kw_only=True, omit_defaults=True):
    """Hold these seats, in place of those that the reservation holds."""

    seats: SeatNumbers
    #: The order that is answered before: it is the one before it on the roll. Empty: none is known.
    after: str = ""


class Cancel(OrderCommand, frozen=True, kw_only=True):
    """End the reservation. Its seats are available again."""


class Confirm(OrderCommand, frozen=True, kw_only=True):
    """End the reservation. Its seats are sold."""


class SeatType(Struct, frozen=True):
    """Price and quota of one seat type, as its publisher says them."""

    price: Decimal
    quota: int


class SetConference(Struct, frozen=True, kw_only=True):
    """Create the conference, or change its prices. A quota counts for a new type only."""

    conference: str
    seats: dict[str, SeatType]
    id: str


class AddSeats(Struct, frozen=True, kw_only=True):
    """Raise quotas."""

    conference: str
    seats: SeatNumbers
    id: str


class RemoveSeats(Struct, frozen=True, kw_only=True):
    """Lower quotas, by seats that are available."""

    conference: str
    seats: SeatNumbers
    id: str


class CloseConference(Struct, frozen=True, kw_only=True):
    """Lower each quota by the seats that are available now. Reservations keep theirs."""

    conference: str
    id: str


Reservation: TypeAlias = Reserve | Cancel | Confirm
#: The commands of a conference's publisher.
Management: TypeAlias = SetConference | AddSeats | RemoveSeats | CloseConference
SeatCommand: TypeAlias = Reservation | Management
_SEAT_KINDS: Final[dict[type[SeatCommand], str]] = {
    Reserve: "reserve_seats",
    Cancel: "cancel_seats",
    Confirm: "confirm_seats",
    SetConference: "conference",
    AddSeats: "add_seats",
    RemoveSeats: "remove_seats",
    CloseConference: "close_conference",
}
_BY_KIND: Final = {kind: command for command, kind in _SEAT_KINDS.items()}


def seats_home(conference: str) -> str:
    """Return the key of a conference's home."""
    return SEATS_HOMES + conference


def send_to(conference: str, command: SeatCommand) -> Command:
    """Return the command for the bus. One of an order gets its id from the runtime that stores it."""
    kind, to, body = _SEAT_KINDS[type(command)], seats_home(conference), msgspec.to_builtins(command)
    id_ = body.pop("id", "")
    if not isinstance(command, OrderCommand):
        return Command(kind=kind, to=to, body=body, id=id_)
    # The bus may drop a late reserve. It must not drop an end: seats would never be free again.
    not_after = command.not_after if isinstance(command, Reserve) else None
    return Command(kind=kind, to=to, body=body, id=id_, generation=body.pop("generation"), not_after=not_after)


def read_seat_command(command: Command) -> SeatCommand:
    """Return the command that came by the bus. Raises msgspec.ValidationError for one that Sluice did not send, LaterFormatError for one of a newer app."""
    kind = _BY_KIND.get(command.kind)
    if kind is None:
        raise LaterFormatError(
            f"could not read command {command.id!r} of kind {command.kind!r}: this program knows {len(_BY_KIND)} kinds; "
            "update the app"
        )
    return convert({**command.body, "id": command.id, "generation": command.generation}, kind)
