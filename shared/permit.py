"""Permits to work, on the topic `signals`: JSON under the wrapper key of all messages, but on no queue of a stage."""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from shared.decoding import make_decoder

VERSION: Final = 1
PERMIT: Final = "work"  # the kind of a permit, by which subscriptions filter
#: More than any fleet has. The app sent no number above it.
MOST_OF_A_FLEET: Final = 1_000_000
#: A number of slots, messages or tasks.
FleetNumber: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_OF_A_FLEET)]


class Permit(Struct, frozen=True, kw_only=True, tag_field="kind", tag=PERMIT):
    """On the topic `signals`: run the tasks of this slot as long as there is work."""

    slot: FleetNumber
    #: Queued messages, and tasks of the whole fleet, when it was sent; hints for the size of a receive.
    depth: FleetNumber = 0
    tasks: FleetNumber = 0
    v: int = VERSION


class _Wrapper(Struct, frozen=True):
    sluice: Permit


_decoder = make_decoder(_Wrapper)


def encode_permit(permit: Permit) -> bytes:
    """Return the bytes of the permit on the wire."""
    return msgspec.json.encode({"sluice": permit})


def decode_permit(body: bytes) -> Permit | None:
    """Return the permit, or None for any other body or version."""
    try:
        permit = _decoder.decode(body).sluice
    except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors, and so is UnicodeError
        return None
    return permit if permit.v == VERSION else None
