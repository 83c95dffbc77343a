"""The index of a payload: where each frame lies, how many transactions it holds, and its hash.

Makes frames out of lines while they come: what it holds is one frame, however many lines there are.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from itertools import groupby
from operator import attrgetter
from typing import IO, Any, Final, cast

import msgspec

from shared.grammar import EXACT, SHA256, ZERO
from shared.payload.compression import Codec, compress
from shared.payload.limits import Limits
from shared.payload.transactions import Reader, amounts_reader
from shared.refusals import BY_CODE, Reason, refuse


class Frame(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One row of the index: [offset, length, items, sha256 of the stored bytes]."""

    offset: int
    length: int
    items: int
    sha256: str


@dataclass(frozen=True, slots=True)
class FrameRun:
    """Consecutive frames that are fetched by one ranged read and worked on together."""

    number: int
    #: The position of its first transaction in the payload.
    first_item: int
    frames: tuple[Frame, ...]

    @property
    def offset(self) -> int:
        """Where its bytes begin in the payload."""
        return self.frames[0].offset

    @property
    def length(self) -> int:
        """How many stored bytes it has."""
        return sum(frame.length for frame in self.frames)

    @property
    def items(self) -> int:
        """How many transactions it has."""
        return sum(frame.items for frame in self.frames)


@dataclass(frozen=True, slots=True)
class FrameIndex:
    """The frames of a whole payload, in order, without a gap."""

    frames: tuple[Frame, ...]

    @property
    def items(self) -> int:
        """How many transactions the payload has."""
        return sum(frame.items for frame in self.frames)

    @property
    def stored(self) -> int:
        """How many bytes the payload has."""
        return sum(frame.length for frame in self.frames)

    def encode(self) -> bytes:
        """Return the one spelling of this index; its hash is the index's hash."""
        return msgspec.json.encode(self.frames)

    @property
    def sha256(self) -> str:
        """The hash of the index, which stands for the content of the payload."""
        return hashlib.sha256(self.encode()).hexdigest()

    def chunks(self, items: int, limits: Limits) -> tuple[FrameRun, ...]:
        """Return the frames in groups of about so many transactions; the same index always gives the same groups."""
        numbered = zip(self._groups(items, limits), self.frames, strict=True)
        chunks: list[FrameRun] = []
        first = 0
        for number, members in groupby(numbered, key=lambda one: one[0]):
            chunks.append(FrameRun(number, first, tuple(frame for _, frame in members)))
            first += chunks[-1].items
        return tuple(chunks)

    def _groups(self, items: int, limits: Limits) -> Iterator[int]:
        """Yield the number of each frame's group: it ends before it would hold more than asked for."""
        number = frames = held = size = 0
        for frame in self.frames:
            is_full = held + frame.items > items or size + frame.length > limits.chunk_stored_most
            if frames and (is_full or frames == limits.chunk_frames_most):
                number, frames, held, size = number + 1, 0, 0, 0
            frames, held, size = frames + 1, held + frame.items, size + frame.length
            yield number


_DECODER: Final = msgspec.json.Decoder(tuple[Frame, ...])


def parse_index(text: bytes, codec: Codec, limits: Limits) -> FrameIndex:
    """Return the index that stands in a blob of its own, checked."""
    try:
        frames = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise refuse(Reason.BAD_INDEX, str(error)) from error
    return check_index(frames, codec, limits)


def check_index(frames: Sequence[Frame], codec: Codec, limits: Limits) -> FrameIndex:
    """Return the index, or refuse it: frames follow each other from 0 on, and each can hold what it claims.

    Ids are reserved by what an index claims, before anything of the payload is read.
    """
    if not frames:
        raise refuse(Reason.EMPTY, "the index lists no frames")
    if len(frames) > limits.frames_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"it has {len(frames)} frames, {limits.frames_most} may be")
    end, ratio = 0, 1 if codec is Codec.PLAIN else limits.ratio_most
    for number, frame in enumerate(frames):
        _check_frame(number, frame, end, limits)
        if frame.items * limits.line_least > frame.length * ratio:
            raise refuse(
                Reason.LINE_COUNT,
                f"frame {number} has {frame.length} bytes and {frame.items} lines by its index; "
                f"{frame.length * ratio // limits.line_least} may be",
            )
        end += frame.length
    index = FrameIndex(tuple(frames))
    if index.items > limits.items_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"it has {index.items} transactions, {limits.items_most} may be")
    if end > limits.stored_most:
        raise refuse(Reason.PAYLOAD_TOO_LARGE, f"it has {end} bytes, {limits.stored_most} may be")
    return index


def _check_frame(number: int, frame: Frame, end: int, limits: Limits) -> None:
    if frame.offset != end:
        raise refuse(Reason.BAD_INDEX, f"frame {number} begins at {frame.offset}, the one before it ends at {end}")
    if frame.length < 1 or frame.items < 1:
        raise refuse(Reason.BAD_INDEX, f"frame {number} has {frame.length} bytes and {frame.items} transactions")
    if frame.length > limits.frame_stored_most:
        raise refuse(Reason.FRAME_TOO_LARGE, f"frame {number} has {frame.length} bytes")
    if frame.items > limits.frame_items_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"frame {number} has {frame.items} transactions")
    if not SHA256.fullmatch(frame.sha256):
        raise refuse(Reason.BAD_INDEX, f"frame {number} has the hash {frame.sha256[:70]!r}, expected 64 of 0-9 a-f")


@dataclass(frozen=True, slots=True)
class Framed:
    """What was written: the index of the frames, and the hash of all their bytes together."""

    index: FrameIndex
    codec: Codec
    #: Of the stored bytes: the name of the blob.
    sha256: str
    #: The exact sums that were asked for.
    sums: dict[str, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """How frames are made."""

    limits: Limits = field(default_factory=Limits)
    codec: Codec = Codec.ZSTD
    #: The fields to add up.
    sums: tuple[str, ...] = ()
    #: Whether a line that no workload could read is refused by its number. Else it is left for the chunk that holds
    #: it, where it is rejected alone.
    is_strict: bool = False


def spool_for(limits: Limits) -> IO[bytes]:
    """Return where frames wait until their hash, which names them, is known; close it."""
    return cast("IO[bytes]", tempfile.SpooledTemporaryFile(limits.spool_in_memory))


def write_frames(lines: Iterable[tuple[int, bytes]], spool: IO[bytes], framing: Framing) -> Framed:
    """Write the numbered lines as frames, one after the other."""
    limits, codec = framing.limits, framing.codec
    frames: list[Frame] = []
    whole, end, items = hashlib.sha256(), 0, 0
    totals = dict.fromkeys(framing.sums, ZERO)
    reader = amounts_reader(framing.sums, limits) if framing.is_strict else None
    for batch in _batches(lines, limits):
        text = b"".join(line + b"\n" for _, line in batch)
        if reader is not None:
            _inspect(reader, batch, totals)
        stored = compress(text, codec)
        frames.append(Frame(end, len(stored), len(batch), hashlib.sha256(stored).hexdigest()))
        whole.update(stored)
        end, items = end + len(stored), items + len(batch)
        _check_room(len(frames), items, end, limits)
        spool.write(stored)
    if not frames:
        raise refuse(Reason.EMPTY, "there was no line")
    return Framed(FrameIndex(tuple(frames)), codec, whole.hexdigest(), totals)


def _batches(lines: Iterable[tuple[int, bytes]], limits: Limits) -> Iterator[list[tuple[int, bytes]]]:
    longest, most, room = limits.line_bytes, limits.frame_items, limits.frame_bytes
    batch: list[tuple[int, bytes]] = []
    size = 0
    for one in lines:
        length = len(one[1])
        if length > longest:
            raise refuse(Reason.LINE_TOO_LONG, f"line {one[0]} has {length} bytes")
        if batch and (len(batch) == most or size + length + 1 > room):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += length + 1
    if batch:
        yield batch


def _inspect(reader: Reader[Any], batch: list[tuple[int, bytes]], totals: dict[str, Decimal]) -> None:
    for number, line in batch:
        if b"\n" in line:
            raise refuse(Reason.NOT_JSON, f"line {number} holds a line feed")
    found = reader.read([line for _, line in batch])
    for refused in found.refused[:1]:
        raise refuse(BY_CODE[refused.reason], f"line {batch[refused.place][0]}: {refused.found}")
    with localcontext(EXACT):
        for place, name in enumerate(totals):
            amounts = map(attrgetter(f"amount_{place}"), found.transactions)
            totals[name] = sum((amount for amount in amounts if amount is not None), totals[name])


def _check_room(frames: int, items: int, end: int, limits: Limits) -> None:
    if frames > limits.frames_most or items > limits.items_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"it has {items} transactions in {frames} frames, or more")
    if end > limits.stored_most:
        raise refuse(Reason.PAYLOAD_TOO_LARGE, f"it has {end} bytes, {limits.stored_most} may be")
