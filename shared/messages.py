"""What the stages tell each other, as JSON under one wrapper key, versioned; part of the public formats.

The wrapper is there because the Functions host copies top-level JSON properties into trigger metadata.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Final, Protocol, TypeAlias

import msgspec
from msgspec import Meta, Struct

VERSION = 1
#: The kind of a permit, by which subscriptions filter.
PERMIT: Final = "work"
#: More than any fleet has; a number above it was not sent by us.
MOST_OF_A_FLEET: Final = 1_000_000
#: A number of a message that becomes a number of a row: tables take 32 bits unless they are asked for 64.
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
#: A number that is never a column as it is, and may grow beyond that: an id, or where a byte lies.
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
#: A number of slots, messages or tasks.
FleetNumber: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_OF_A_FLEET)]
#: Exact decimals travel as text: JSON numbers become floats in too many readers.
Sums: TypeAlias = dict[str, str]
#: Offset, length, items and SHA-256 of one frame of a payload.
FrameTuple: TypeAlias = tuple[Number, Count, Count, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One delivery of a message by the host."""

    queue: str
    message_id: str
    body: bytes
    #: 1 for the first; it counts what was handed out, not what was worked on.
    count: int


class DispatchMessage(Struct, frozen=True, kw_only=True, tag_field="kind", tag="dispatch", forbid_unknown_fields=True):
    """In a held row, and on no queue: what waits behind the gate is this job."""

    job: str
    v: int = VERSION


class ChunkMessage(Struct, frozen=True, kw_only=True, tag_field="kind", tag="chunk", omit_defaults=True):
    """On a work queue: everything that processing one chunk needs, so that it reads nothing but the payload."""

    job: str
    chunk: Count
    revision: Count
    workload: str
    codec: str
    frames: list[FrameTuple]
    #: The id of the chunk's first transaction; the others follow.
    first_id: Number
    #: The payload's blob, and the ETag that it must still have; None when the chunk's bytes are in `inline`.
    blob: str | None = None
    etag: str | None = None
    inline: str | None = None
    #: Whether the blob is one that the app framed and keeps itself; else it is in the container of the job's room.
    is_kept: bool = False
    #: Whether another message of this chunk was sent before, so that its result may be there already.
    again: bool = False
    #: The W3C trace context of the dispatch; left out while nobody traces.
    trace: str | None = None
    v: int = VERSION


class PortionMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Items and declared sums that ended in one way; `sums` is None where they cannot be known."""

    items: Count = 0
    sums: Sums | None = msgspec.field(default_factory=dict)


class Result(Struct, frozen=True, kw_only=True, tag_field="kind", tag="result", omit_defaults=True):
    """On the bus queue `results`: how one chunk ended; at most 1 KiB, the partial itself is in the result blob."""

    job: str
    chunk: Count
    revision: Count
    #: Name and SHA-256 of the result blob; None for a parked chunk.
    blob: str | None = None
    hash: str | None = None
    accepted: PortionMessage = PortionMessage()
    rejected: PortionMessage = PortionMessage()
    parked: PortionMessage = PortionMessage()
    #: Why the chunk is parked; None for one that is done.
    reason: str | None = None
    milliseconds: Count = 0
    #: What this chunk requested of storage, as it is billed and why; left out where the message would grow too large.
    requests: dict[str, Count] = msgspec.field(default_factory=dict)
    #: The trace context of the chunk's work; left out while nobody traces, or where the message would grow too large.
    trace: str | None = None
    v: int = VERSION


class Finish(Struct, frozen=True, kw_only=True, tag_field="kind", tag="finish", forbid_unknown_fields=True):
    """On work-00: merge the partials of this revision and write the outputs."""

    job: str
    revision: Count
    v: int = VERSION


class Completed(Struct, frozen=True, kw_only=True, tag_field="kind", tag="completed", omit_defaults=True):
    """On the topic `job-events`: a revision of a job is finished; may come more than once."""

    job: str
    revision: Count
    workload: str
    #: complete, completed_with_parked or unbalanced.
    state: str
    accepted: PortionMessage = PortionMessage()
    rejected: PortionMessage = PortionMessage()
    parked: PortionMessage = PortionMessage()
    v: int = VERSION


class Permit(Struct, frozen=True, kw_only=True, tag_field="kind", tag=PERMIT):
    """On the topic `signals`: run the tasks of this slot as long as there is work."""

    slot: FleetNumber
    #: Messages, and tasks over the fleet, when it was sent; hints for the size of a receive.
    depth: FleetNumber = 0
    tasks: FleetNumber = 0
    v: int = VERSION


#: What a stage sends another one; a permit is none of these, so no queue of work takes one.
Internal: TypeAlias = DispatchMessage | ChunkMessage | Result | Finish | Completed


class _Wrapper(Struct, frozen=True):
    sluice: Internal


class _PermitWrapper(Struct, frozen=True):
    sluice: Permit


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Wrapper)
_permit_decoder = msgspec.json.Decoder(_PermitWrapper)


def unwrap(body: bytes) -> bytes:
    """Return the JSON of a body that a portal or a .NET program sent as Base64; any other without blanks around it.

    The one rule for every queue and stage: each reads, parks and puts back a message by it.
    """
    text = body.strip()
    if text.startswith(b"{"):
        return text
    try:
        decoded = base64.b64decode(text, validate=True).strip()
    except (binascii.Error, ValueError):
        return text
    return decoded if decoded.startswith(b"{") else text


def encode(message: Internal) -> bytes:
    """Return the message as it goes on the wire."""
    return _encoder.encode({"sluice": message})


def decode(body: bytes | str) -> Internal:
    """Return the message; raises msgspec.DecodeError, and nothing else, which says where it is wrong."""
    try:
        return _decoder.decode(body).sluice
    except (UnicodeError, RecursionError) as error:
        # Of a library whose own error does not say that it reads bytes that are no text.
        raise msgspec.DecodeError(str(error)) from error


def encode_permit(permit: Permit) -> bytes:
    """Return the permit as it goes on the wire."""
    return _encoder.encode({"sluice": permit})


def decode_permit(body: bytes) -> Permit | None:
    """Return the permit; None for a body that is none of this version."""
    try:
        permit = _permit_decoder.decode(body).sluice
    except (ValueError, RecursionError):
        # The library's own errors are ValueErrors too; of bytes that are no UTF-8 it raises Python's.
        return None
    return permit if permit.v == VERSION else None


class SendResult(Protocol):
    """Sends one result, or raises ResultNotSentError; whether it arrived is not known then."""

    def __call__(self, result: Result, /) -> None:
        """Send it."""
        ...
