"""Makes frames out of lines while they come: what it holds is one frame, however many lines there are."""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from operator import attrgetter
from typing import IO, Any, cast

from shared.payload.compression import Codec, compress
from shared.payload.decimals import EXACT, ZERO
from shared.payload.frames import Frame, FrameIndex
from shared.payload.limits import Limits
from shared.payload.reasons import BY_CODE, Reason, refuse
from shared.payload.transactions import Reader, amounts_reader


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
