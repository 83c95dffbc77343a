"""Frames of a payload, and its index: offset, length, number of transactions and hash of each frame.

The writer makes frames while lines arrive and holds one frame in memory, however many lines there are.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from operator import attrgetter
from typing import IO, Any, Final, cast

import msgspec

from shared.decoding import make_decoder
from shared.errors import RefusedError
from shared.grammar import EXACT, SHA256, ZERO
from shared.payload.compression import Codec, compress
from shared.payload.payload_store import Limits
from shared.payload.transactions import Reader, amounts_reader
from shared.refusals import BY_CODE, Reason, refuse


class Frame(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One row of the index: [offset, length, items, sha256 of the stored bytes]."""

    offset: int
    length: int
    items: int
    sha256: str


@dataclass(frozen=True, slots=True)
class FrameIndex:
    """The frames of a whole payload, in order, without a gap."""

    frames: tuple[Frame, ...]

    @property
    def items(self) -> int:
        """Return the number of transactions of the payload."""
        return sum(frame.items for frame in self.frames)

    @property
    def stored(self) -> int:
        """Return the number of stored bytes of the payload."""
        return sum(frame.length for frame in self.frames)

    def encode(self) -> bytes:
        """Return the one spelling of this index, from which its hash is made."""
        return msgspec.json.encode(self.frames)

    @property
    def sha256(self) -> str:
        """Return the hash of the index, which stands for the content of the payload."""
        return hashlib.sha256(self.encode()).hexdigest()


_DECODER: Final = make_decoder(tuple[Frame, ...])


def parse_index(text: bytes, codec: Codec, limits: Limits) -> FrameIndex:
    """Return the checked index from the text of its own blob."""
    try:
        frames = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise refuse(Reason.BAD_INDEX, str(error)) from error
    return check_index(frames, codec, limits)


def check_index(frames: Sequence[Frame], codec: Codec, limits: Limits) -> FrameIndex:
    """Return the index, or refuse it: frames follow each other from 0 on, and each is large enough for its lines.

    The number of transactions counts: ids are reserved by it before any byte of the payload is read.
    """
    if not frames:
        raise refuse(Reason.EMPTY, "the index lists no frames")
    if len(frames) > limits.frames_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"it has {len(frames)} frames, the limit is {limits.frames_most}")
    end, ratio = 0, 1 if codec is Codec.PLAIN else limits.ratio_most
    for number, frame in enumerate(frames):
        _check_frame(number, frame, end, limits)
        if frame.items * limits.line_least > frame.length * ratio:
            raise refuse(
                Reason.LINE_COUNT,
                f"the index says that frame {number} has {frame.length} bytes and {frame.items} lines; "
                f"the limit for its size is {frame.length * ratio // limits.line_least}",
            )
        end += frame.length
    index = FrameIndex(tuple(frames))
    if index.items > limits.items_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"it has {index.items} transactions, the limit is {limits.items_most}")
    if end > limits.stored_most:
        raise refuse(Reason.PAYLOAD_TOO_LARGE, f"it has {end} bytes, the limit is {limits.stored_most}")
    return index


def _check_frame(number: int, frame: Frame, end: int, limits: Limits) -> None:
    if frame.offset != end:
        raise refuse(Reason.BAD_INDEX, f"frame {number} begins at {frame.offset}, the one before it ends at {end}")
    if frame.length < 1 or frame.items < 1:
        raise refuse(Reason.BAD_INDEX, f"frame {number} has {frame.length} bytes and {frame.items} transactions")
    if frame.length > limits.frame_stored_most:
        raise refuse(
            Reason.FRAME_TOO_LARGE, f"frame {number} has {frame.length} bytes, the limit is {limits.frame_stored_most}"
        )
    if frame.items > limits.frame_items_most:
        most = limits.frame_items_most
        raise refuse(Reason.TOO_MANY_ITEMS, f"frame {number} has {frame.items} transactions, the limit is {most}")
    if not SHA256.fullmatch(frame.sha256):
        raise refuse(Reason.BAD_INDEX, f"frame {number} has the hash {frame.sha256[:70]!r}, expected 64 of 0-9 a-f")


@dataclass(frozen=True, slots=True)
class Framed:
    """Frames that were written: their index, and the hash of all their bytes."""

    index: FrameIndex
    codec: Codec
    #: The hash of the stored bytes, which names the blob.
    sha256: str
    #: The exact sums over the fields of `Framing.sums`.
    sums: dict[str, Decimal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """How frames are made."""

    limits: Limits = field(default_factory=Limits)
    codec: Codec = Codec.ZSTD
    #: Transactions of a chunk, where they are known: then frames end where chunks end.
    chunk_items: int | None = None
    #: The fields to add up.
    sums: tuple[str, ...] = ()
    #: True: a line that no workload could read refuses the payload, with its number. False: the chunk that holds it
    #: rejects that line alone.
    is_strict: bool = False


def spool_for(limits: Limits) -> IO[bytes]:
    """Return a temporary file for frames, until the hash that names them is known. The caller closes it."""
    return cast("IO[bytes]", tempfile.SpooledTemporaryFile(limits.spool_in_memory))


def write_frames(lines: Iterable[tuple[int, bytes]], spool: IO[bytes], framing: Framing) -> Framed:
    """Write the numbered lines as frames, one behind the other."""
    limits, codec = framing.limits, framing.codec
    frames: list[Frame] = []
    whole, end, items = hashlib.sha256(), 0, 0
    totals = dict.fromkeys(framing.sums, ZERO)
    reader = amounts_reader(framing.sums, limits) if framing.is_strict else None
    for batch in _batches(lines, framing):
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


def _batches(lines: Iterable[tuple[int, bytes]], framing: Framing) -> Iterator[list[tuple[int, bytes]]]:
    limits, step = framing.limits, _step(framing)
    longest, most, room = limits.line_bytes, limits.frame_items, limits.frame_bytes
    batch: list[tuple[int, bytes]] = []
    size, left = 0, step
    for one in lines:
        length = len(one[1])
        if length > longest:
            raise refuse(Reason.LINE_TOO_LONG, f"line {one[0]} has {length} bytes, the limit is {longest}")
        if batch and (len(batch) == min(most, left) or size + length + 1 > room):
            yield batch
            left = left - len(batch) or step
            batch, size = [], 0
        batch.append(one)
        size += length + 1
    if batch:
        yield batch


def _step(framing: Framing) -> int:
    """Return the number of lines after which a frame ends at the latest: those of a chunk, or of some small chunks."""
    items = framing.chunk_items
    return framing.limits.items_most if items is None else items * max(1, framing.limits.frame_items_least // items)


_LINES_OF_JSON: Final = "write one JSON object on each line; convert any other file first, such as CSV"


def _inspect(reader: Reader[Any], batch: list[tuple[int, bytes]], totals: dict[str, Decimal]) -> None:
    for number, line in batch:
        if b"\n" in line:
            raise refuse(Reason.NOT_JSON, f"line {number} holds a line feed")
    found = reader.read([line for _, line in batch])
    for refused in found.refused[:1]:
        reason = BY_CODE[refused.reason]
        instead = _LINES_OF_JSON if reason is Reason.NOT_JSON else reason.instead
        raise RefusedError(reason, f"line {batch[refused.place][0]}: {refused.found}", instead)
    with localcontext(EXACT):
        for place, name in enumerate(totals):
            amounts = map(attrgetter(f"amount_{place}"), found.transactions)
            totals[name] = sum((amount for amount in amounts if amount is not None), totals[name])


def _check_room(frames: int, items: int, end: int, limits: Limits) -> None:
    if frames > limits.frames_most or items > limits.items_most:
        raise refuse(
            Reason.TOO_MANY_ITEMS,
            f"it has at least {items} transactions in {frames} frames, "
            f"the limits are {limits.items_most} and {limits.frames_most}",
        )
    if end > limits.stored_most:
        raise refuse(Reason.PAYLOAD_TOO_LARGE, f"it has {end} bytes, the limit is {limits.stored_most}")
