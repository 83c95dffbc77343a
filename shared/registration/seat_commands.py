"""The commands to a conference's seats, as typed data, and the way to the bus and back.

Reservations come from orders: the reservation's id is the order's. The others come from the publishers of a conference.
"""

from datetime import datetime
from decimal import Decimal
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from shared.decoding import convert
from shared.errors import LaterFormatError
from shared.messaging import Command
from shared.registration.bodies import SeatNumbers

#: Before the id of a conference, in the key of its home.
SEATS_HOMES: Final = "seats-"


class OrderCommand(Struct, frozen=True, kw_only=True):
    """A command about the reservation of one order."""

    order: str
    generation: int
    #: The end of the order's window. A reserve after it changes nothing.
    not_after: datetime
    id: str = ""


class Reserve(OrderCommand, frozen=True, kw_only=True):
    """Hold these seats, in place of those that the reservation holds."""

    seats: SeatNumbers


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
_KINDS: Final[dict[type[SeatCommand], str]] = {
    Reserve: "reserve_seats",
    Cancel: "cancel_seats",
    Confirm: "confirm_seats",
    SetConference: "conference",
    AddSeats: "add_seats",
    RemoveSeats: "remove_seats",
    CloseConference: "close_conference",
}
_BY_KIND: Final = {kind: command for command, kind in _KINDS.items()}


def seats_home(conference: str) -> str:
    """Return the key of a conference's home."""
    return SEATS_HOMES + conference


def send_to(conference: str, command: SeatCommand) -> Command:
    """Return the command for the bus. One of an order gets its id from the runtime that stores it."""
    kind, to, body = _KINDS[type(command)], seats_home(conference), msgspec.to_builtins(command)
    id_ = body.pop("id")
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
