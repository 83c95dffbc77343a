"""The fields of the public messages and requests, as their senders write them. `public_messages` checks the values."""

from msgspec import Struct

from shared.payload import MessageHeader


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
