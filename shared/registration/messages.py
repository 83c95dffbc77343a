"""The six messages of the queue `orders`, read as strictly as submissions are."""

from decimal import Decimal
from typing import TypeAlias

from msgspec import Struct

from shared.payload import Limits
from shared.registration.bodies import SeatNumbers
from shared.registration.order_messages import Outcome
from shared.registration.seat_commands import AddSeats, RemoveSeats, SetConference


class PlaceOrder(Struct, frozen=True, kw_only=True):
    """A new order. Without a gate it starts at once; without an access code Sluice makes one."""

    order: str
    conference: str
    seats: SeatNumbers
    access_code: str | None = None
    gate: str | None = None


class UpdateOrder(Struct, frozen=True, kw_only=True):
    """Other seats for an order, in place of those of this version."""

    id: str
    order: str
    version: int
    seats: SeatNumbers


class Payment(Struct, frozen=True, kw_only=True):
    """A payment for an order ended."""

    id: str
    order: str
    outcome: Outcome
    amount: Decimal


OrderMessage: TypeAlias = SetConference | AddSeats | RemoveSeats | PlaceOrder | UpdateOrder | Payment


def read_order_message(body: bytes | str, limits: Limits) -> OrderMessage:
    """Return the message, or raise RefusedError with the reason."""
    raise NotImplementedError


def content_hash(message: OrderMessage) -> str:
    """Return the SHA-256 of the content. The access code is left out: a plain hash would tell it.

    Who compares two orders compares their codes by the salted hash.
    """
    raise NotImplementedError
