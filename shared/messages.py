"""Messages between the stages: versioned JSON under one wrapper key. They are part of the public formats.

The wrapper exists because the Functions host copies top-level JSON properties into trigger metadata.

Permits to work, on the bus queue `permits`: JSON under the wrapper key of all messages, but on no queue of a stage.
"""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from shared.grammar import room_of
from shared.versions import make_decoder

T_co = TypeVar("T_co", covariant=True)
VERSION = 1
#: The version of a chunk that takes a part of its frames. Workers of before would take the whole frames: they refuse it.
PARTS_VERSION: Final = 2
#: The version of a chunk whose job has lines of its transactions, or of which only those run that were set aside. Workers of
#: before would make no lines, or run the whole: they wait for a newer one.
LINES_VERSION: Final = 3
#: The version of a result with streams, or that extends another. Settlers of before would refuse its content, or drop it: they
#: wait for a newer one.
STREAMS_VERSION: Final = 2
#: A number that becomes a column: tables store 32 bits unless a property declares 64.
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
#: The `halts` of a message that a person replays: no halt row drops it.
NEVER_HALTED: Final = 2**31 - 1
#: A number that is never a column, and may be larger: an id, or the offset of a byte.
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
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
    #: 1 for the first. It counts deliveries, also those that never began to be handled.
    count: int
    #: By which the host holds it, if it came by a queue trigger.
    receipt: str = ""


class DispatchMessage(Struct, frozen=True, kw_only=True, tag_field="kind", tag="dispatch", forbid_unknown_fields=True):
    """In a held row, and on no queue: names the job that waits behind the gate."""

    job: str
    v: int = VERSION


class FirstChunkMark(Struct, frozen=True, kw_only=True):
    """In the first chunk message that a release puts: the opening whose delay is measured at the begin of its work."""

    gate: str
    epoch: Count
    opened_at: Annotated[datetime, Meta(tz=True)]
    seen_by: str  # how the releaser saw it: push or poll


class ChunkMessage(Struct, frozen=True, kw_only=True, tag_field="kind", tag="chunk", omit_defaults=True):
    """On a work queue: all that processing one chunk needs, so that it reads only the payload."""

    job: str
    chunk: Count
    revision: Count
    workload: str
    codec: str
    frames: list[FrameTuple]
    #: The lines of its first frame that it skips, and its transactions; left out if it takes all lines of its frames.
    part: tuple[Count, Count] | None = None
    #: The id of the chunk's first transaction; the others follow.
    first_id: Number
    #: The payload's blob, and the ETag that it must still have; None when the chunk's bytes are in `inline`.
    blob: str | None = None
    etag: str | None = None
    inline: str | None = None
    #: Whether the app framed the blob and keeps it itself; else it is in the container of the job's room.
    is_kept: bool = False
    #: Whether the job has lines of its transactions.
    lines: bool = False
    #: Whether another message of this chunk was sent before, so that its result may exist already.
    again: bool = False
    #: How often the job's messages were taken out when this one was put. Below the job's halt row, it is dropped.
    halts: Count = 0
    #: Whether only those of its transactions run that its credited result set aside.
    aside: bool = False
    trace: str | None = None  # the W3C trace context of the dispatch; left out when tracing is off
    #: In the first of several chunks: the job's transactions. Its worker says early if their merged partial cannot fit.
    sound: Count | None = None
    #: On the first message of a release only. A message that is put again later has none: its delay has other reasons.
    first: FirstChunkMark | None = None
    v: int = VERSION

    @property
    def needs(self) -> int:
        """The version of its form."""
        return LINES_VERSION if self.lines or self.aside else VERSION if self.part is None else PARTS_VERSION

    @property
    def stored(self) -> int:
        """The stored bytes that its worker reads."""
        return sum(frame[1] for frame in self.frames)

    @property
    def items(self) -> int:
        """Number of its transactions."""
        return sum(frame[2] for frame in self.frames) if self.part is None else self.part[1]


class PortionMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Items and declared sums that ended in one way. `sums` is None if they cannot be known."""

    items: Count = 0
    sums: Sums | None = msgspec.field(default_factory=dict)


#: The default of a portion. Only this very one is left out of a message.
NO_PORTION: Final = PortionMessage()


class Result(Struct, frozen=True, kw_only=True, tag_field="kind", tag="result", omit_defaults=True):
    """On the bus queue `results`: how one chunk ended, without its content in at most 1.5 KiB."""

    job: str
    chunk: Count
    revision: Count
    #: The result blob, or else the packed result itself as Base64; None for a parked chunk.
    blob: str | None = None
    content: str | None = None
    hash: str | None = None  # SHA-256 of the unpacked result: another version of zstd packs the same otherwise
    length: Count | None = None  # stored bytes; messages of earlier versions lack it
    #: Bytes of its partial as JSON. Messages of earlier versions lack it.
    partial: Count | None = None
    #: Bytes of the whole job's merged partial, if they cannot fit.
    expected: Number | None = None
    #: Stored bytes of its stream `lines`, which are the last ones. None: it has no such stream.
    lines: Count | None = None
    #: The hash of the credited result whose place it takes: of that, some transactions were set aside, and have passed since.
    extends: str | None = None
    accepted: PortionMessage = PortionMessage()
    rejected: PortionMessage = PortionMessage()
    parked: PortionMessage = NO_PORTION
    reason: str | None = None  # why the chunk is parked; None for one that is done
    milliseconds: Count = 0
    #: Storage requests of this chunk, by billed kind and purpose; left out if the message would be too large.
    requests: dict[str, Count] = msgspec.field(default_factory=dict)
    #: The trace context of the chunk's work; left out when tracing is off, or if the message would be too large.
    trace: str | None = None
    v: int = VERSION


class Results(Struct, frozen=True, kw_only=True, tag_field="kind", tag="results", forbid_unknown_fields=True):
    """On the bus queue `results`: what several chunks sent together, of any jobs."""

    results: list[Result]
    v: int = VERSION


class Finish(Struct, frozen=True, kw_only=True, tag_field="kind", tag="finish", forbid_unknown_fields=True):
    """On a work queue: merge the partials of this revision and write the outputs."""

    job: str
    revision: Count
    v: int = VERSION


class Segment(Struct, frozen=True, kw_only=True, tag_field="kind", tag="segment", forbid_unknown_fields=True):
    """On a work queue: merge the partials of one segment of this revision."""

    job: str
    revision: Count
    segment: Count
    again: bool = False  # whether it was sent before, so that the segment may be merged already
    v: int = VERSION


class Shard(Struct, frozen=True, kw_only=True, tag_field="kind", tag="shard", forbid_unknown_fields=True):
    """On a work queue: write the totals and the lines of one shard of this revision."""

    job: str
    revision: Count
    shard: Count
    v: int = VERSION


class FileRange(Struct, frozen=True, kw_only=True, tag_field="kind", tag="range", omit_defaults=True):
    """On a work queue: cut the lines that begin in the range of this number. The job's row names the file and its ranges."""

    job: str
    stretch: Count
    again: bool = False  # whether another message of this range was sent before
    v: int = VERSION


class Completed(Struct, frozen=True, kw_only=True, tag_field="kind", tag="completed", omit_defaults=True):
    """On the topic `job-events`: a revision of a job is finished. It may be sent more than once."""

    job: str
    revision: Count
    workload: str
    state: str  # complete, completed_with_parked or unbalanced
    accepted: PortionMessage = PortionMessage()
    rejected: PortionMessage = PortionMessage()
    parked: PortionMessage = PortionMessage()
    v: int = VERSION


FinishStep: TypeAlias = Finish | Segment | Shard
#: Messages from stage to stage. A permit is not among them, so no work queue accepts one.
Internal: TypeAlias = DispatchMessage | ChunkMessage | Result | Results | FinishStep | FileRange | Completed


class Wrapping(Protocol[T_co]):
    """A message on the wire: all of it stands under one key."""

    @property
    def sluice(self) -> T_co:
        """The content of the key."""


class _Wrapper(Struct, frozen=True):
    sluice: Internal


_encoder = msgspec.json.Encoder()
_decoder = make_decoder(_Wrapper)


def unwrap(body: bytes) -> bytes:
    """Return the JSON of a body that a portal or a .NET program sent as Base64, or else the body without outer blanks.

    This is the one rule for every queue and stage: each reads, parks and puts back a message by it.
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
    """Return the bytes of the message on the wire."""
    return _encoder.encode({"sluice": message})


def decode(body: bytes | str) -> Internal:
    """Return the message. Raises only msgspec.DecodeError, which names the place of the fault."""
    return read_inside(_decoder.decode, body)


def read_inside(read: Callable[[bytes | str], Wrapping[T_co]], body: bytes | str) -> T_co:
    """Return the content of the key. Raises only msgspec.DecodeError, which names the place of the fault."""
    try:
        return read(body).sluice
    except (UnicodeError, RecursionError) as error:  # for bytes that are not UTF-8, and for deep nesting
        raise msgspec.DecodeError(str(error)) from error


def room_of_work(body: bytes) -> str:
    """Return the room of the job that a message on a work queue is about, the common one for any other body."""
    try:
        return room_of(getattr(decode(unwrap(body)), "job", ""))
    except msgspec.DecodeError:
        return ""


PERMIT_VERSION: Final = 1
#: More than any fleet has. The app sent no number above it.
MOST_OF_A_FLEET: Final = 1_000_000
#: A number of slots, messages or tasks.
FleetNumber: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_OF_A_FLEET)]


class Permit(Struct, frozen=True, kw_only=True, tag_field="kind", tag="work"):
    """On the bus queue `permits`: run the tasks of this slot as long as there is work."""

    slot: FleetNumber
    #: Queued messages, and tasks of the whole fleet, when it was sent; hints for the size of a receive.
    depth: FleetNumber = 0
    tasks: FleetNumber = 0
    v: int = PERMIT_VERSION


class FeedCall(Struct, frozen=True, kw_only=True, tag_field="kind", tag="feed"):
    """On the bus queue `permits`: jobs may wait for their turn, and perhaps no feeder puts their chunks."""

    v: int = PERMIT_VERSION


class _PermitWrapper(Struct, frozen=True):
    sluice: Permit | FeedCall


_permit_decoder = make_decoder(_PermitWrapper)


def encode_permit(permit: Permit | FeedCall) -> bytes:
    """Return the bytes of a permit, or of a feed call, on the wire."""
    return msgspec.json.encode({"sluice": permit})


def decode_permit(body: bytes) -> Permit | FeedCall | None:
    """Return the permit or the feed call, or None for any other body or version."""
    try:
        permit = _permit_decoder.decode(body).sluice
    except (ValueError, RecursionError):  # msgspec's own errors are ValueErrors, and so is UnicodeError
        return None
    return permit if permit.v == PERMIT_VERSION else None
