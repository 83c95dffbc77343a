"""Frames of a payload, and its index: offset, length, number of transactions and hash of each frame.

The writer makes frames while lines arrive and holds one frame in memory, however many lines there are.

Compresses frames, and expands compressed bytes of publishers within bounds.

A frame is exactly one compressed member. A file may have several, one after the other.
"""

import hashlib
import tempfile
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import IO, Final, Protocol, cast

import msgspec

from shared import zstd
from shared.grammar import SHA256
from shared.payload.cutting import Check, Cutter
from shared.payload.payload_store import MIB, Limits
from shared.refusals import Reason, refuse
from shared.versions import make_decoder


class Codec(StrEnum):
    """How a payload is compressed."""

    ZSTD = "zstd"
    GZIP = "gzip"
    PLAIN = "plain"


_MAGIC: Final = {Codec.ZSTD: zstd.MAGIC, Codec.GZIP: b"\x1f\x8b"}
_SKIPPED: Final = b"\x2a\x4d\x18"
#: Compressed bytes per step. The densest zstd block expands 4 bytes to 128 KiB, deflate expands one byte to 1,032.
#: So a step makes at most 4 MiB, which the library of zstd holds twice, and a bomb is refused before it fills the memory.
_STEP: Final = {Codec.ZSTD: 128, Codec.GZIP: 4096, Codec.PLAIN: 64 * 1024}
#: The window of `zstd -19`. Only --long and --ultra need more.
_WINDOW: Final = 8 * MIB
_GZIP: Final = zlib.MAX_WBITS | 16
#: Threads that compress and hash, and the frames that wait for them at most.
_PACKERS, _PACKED_AHEAD = 2, 4


class _Expander(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def compress(data: bytes, codec: Codec) -> bytes:
    """Return the data as one frame. The same data and library always make the same bytes."""
    if codec is Codec.ZSTD:
        return zstd.pack(data, level=1)
    if codec is Codec.GZIP:
        packer = zlib.compressobj(1, wbits=_GZIP)
        return packer.compress(data) + packer.flush()
    return data


def sniff(head: bytes) -> Codec:
    """Return the codec of a file by its first bytes."""
    # Tools that compress in parallel begin with a skippable frame, whose first byte is one of sixteen.
    if head[1:4] == _SKIPPED:
        return Codec.ZSTD
    return next((codec for codec, magic in _MAGIC.items() if head.startswith(magic)), Codec.PLAIN)


def expand_at_most(stored: int, codec: Codec, limits: Limits) -> int:
    """Return the bytes that a frame of so many stored bytes may expand to. One that expands further is refused."""
    if codec is Codec.PLAIN:
        return stored
    return min(limits.frame_expanded_most, max(limits.ratio_from, stored * limits.ratio_most))


def expand_exactly(frame: bytes, codec: Codec, limits: Limits) -> int:
    """Return the expanded size that a frame claims, within the bound. One that expands further is refused."""
    most = expand_at_most(len(frame), codec, limits)
    if codec is Codec.GZIP:
        return min(most, int.from_bytes(frame[-4:], "little"))
    if codec is Codec.ZSTD:
        with suppress(zstd.ZstdError):
            return min(most, zstd.read_size(frame))
    return most


def expand_frame(frame: bytes, codec: Codec, limits: Limits) -> bytes:
    """Return the expanded bytes of one frame, or refuse it: it must be one whole member with nothing behind it."""
    if codec is Codec.PLAIN:
        return frame
    if (quick := _expand_at_once(frame, codec, limits)) is not None:
        return quick
    expander, parts, size = _expanders(codec)(), [], 0
    claimed = expand_exactly(frame, codec, limits)
    for fed in range(0, len(frame), _STEP[codec]):
        part = _feed(expander, frame[fed : fed + _STEP[codec]], codec)
        size += len(part)
        _check_size(size, fed + _STEP[codec], len(frame), limits, Reason.FRAME_TOO_LARGE)
        parts.append(part)
        if size > claimed:
            # It will be refused at its end at the latest, and memory is held only for the size it claimed.
            parts.clear()
        if expander.eof:
            _refuse_rest(expander.unused_data + frame[fed + _STEP[codec] :], codec)
            return b"".join(parts)
    raise refuse(
        Reason.TRUNCATED, f"its {len(frame)} bytes expand to {size} bytes and end before the compressed data does"
    )


def expand_file(pieces: Iterable[bytes], codec: Codec, limits: Limits) -> Iterator[bytes]:
    """Yield the expanded bytes of a file, piece by piece. It may have several members, like the output of `cat a.gz b.gz`."""
    taken = made = 0
    for piece, part in _expand_members(pieces, codec, limits):
        taken += len(piece)
        made += len(part)
        _check_size(made, taken, taken, limits, Reason.PAYLOAD_TOO_LARGE)
        yield part


def _expand_members(pieces: Iterable[bytes], codec: Codec, limits: Limits) -> Iterator[tuple[bytes, bytes]]:
    if codec is Codec.PLAIN:
        yield from ((piece, piece) for piece in pieces)
        return
    make = _expanders(codec)
    expander, is_inside, members = make(), False, 1
    for piece in pieces:
        for fed in range(0, len(piece), _STEP[codec]):
            step = piece[fed : fed + _STEP[codec]]
            counted = step
            while step:
                if expander.eof:
                    expander, members = make(), members + 1
                    _check_members(members, limits)
                yield counted, _feed(expander, step, codec)
                # A member that ended may leave the beginning of the next one. Its bytes are counted already.
                step, counted, is_inside = expander.unused_data, b"", not expander.eof
    if is_inside:
        raise refuse(Reason.TRUNCATED, "the file ends inside its compressed data")


def _check_members(members: int, limits: Limits) -> None:
    if members > limits.members_most:
        raise refuse(
            Reason.TOO_MANY_ITEMS, f"it has {members} compressed members or more, the limit is {limits.members_most}"
        )


def _expand_at_once(frame: bytes, codec: Codec, limits: Limits) -> bytes | None:
    """Return the expanded bytes of a frame that claims a size within the bound and keeps to it. None: read it with reasons."""
    if codec is not Codec.ZSTD:
        return None
    try:
        size = zstd.read_size(frame)
        if size > expand_at_most(len(frame), codec, limits):
            return None
        return zstd.unpack(frame, size)
    except zstd.ZstdError:
        return None


def _check_size(made: int, taken: int, whole: int, limits: Limits, too_large: Reason) -> None:
    if made > limits.ratio_from and made > whole * limits.ratio_most:
        raise refuse(
            Reason.EXPANDS_TOO_FAR,
            f"{whole} bytes expand to {made} or more, the limit is {limits.ratio_most} times their size",
        )
    most = limits.frame_expanded_most if too_large is Reason.FRAME_TOO_LARGE else limits.expanded_most
    if made > most:
        is_bomb = made > taken * limits.ratio_most
        raise refuse(
            Reason.EXPANDS_TOO_FAR if is_bomb else too_large,
            f"it expands to {made} bytes or more, the limit is {most}",
        )


def _refuse_rest(rest: bytes, codec: Codec) -> None:
    if rest.startswith(_MAGIC[codec]):
        raise refuse(Reason.SEVERAL_MEMBERS, f"another member begins {len(rest)} bytes before its end")
    if rest:
        raise refuse(Reason.TRAILING_BYTES, f"{len(rest)} bytes follow its end")


def _feed(expander: _Expander, step: bytes, codec: Codec) -> bytes:
    try:
        return expander.decompress(step)
    except (zlib.error, zstd.ZstdError) as error:
        reason = Reason.WINDOW_TOO_LARGE if "too much memory" in str(error) else Reason.CORRUPT
        raise refuse(reason, f"the {codec} library refuses it: {error}") from error


def _expanders(codec: Codec) -> Callable[[], _Expander]:
    """Return a factory of expanders, one per member."""
    return partial(zstd.make_expander, _WINDOW) if codec is Codec.ZSTD else partial(zlib.decompressobj, _GZIP)


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
    #: How many of the lines were read strictly.
    checked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    """How frames are made."""

    limits: Limits = field(default_factory=Limits)
    codec: Codec = Codec.ZSTD
    #: Transactions of a chunk, where they are known: then frames end where chunks end.
    chunk_items: int | None = None
    #: The fields to add up.
    sums: tuple[str, ...] = ()
    #: How many lines are read strictly before: one of them that no workload could read refuses the payload, with its
    #: number. Of the others, the chunk that holds it rejects that line alone.
    checked: int = 0
    #: How many lines of its file are before these at least. The very first one may have a byte order mark.
    before: int = 0


def spool_for(limits: Limits) -> IO[bytes]:
    """Return a temporary file for frames, until the hash that names them is known. The caller closes it."""
    return cast("IO[bytes]", tempfile.SpooledTemporaryFile(limits.spool_in_memory))


def write_frames(lines: Iterable[tuple[int, bytes]], spool: IO[bytes], framing: Framing) -> Framed:
    """Write the numbered lines as frames, one behind the other."""
    cutter = make_cutter(framing)
    return write_texts(cutter.cut_lines(lines), spool, framing, cutter.check)


def frame_file(pieces: Iterable[bytes], spool: IO[bytes], framing: Framing) -> Framed:
    """Write the lines of a file as frames, one behind the other."""
    cutter = make_cutter(framing)
    return write_texts(cutter.cut_file(pieces), spool, framing, cutter.check)


def make_cutter(framing: Framing) -> Cutter:
    """Return the cutter of the lines of one payload."""
    check = Check(framing.checked, framing.sums, framing.limits)
    return Cutter(framing.limits, check, _step(framing), framing.before)


def write_texts(texts: Iterable[tuple[bytes, int]], spool: IO[bytes], framing: Framing, check: Check) -> Framed:
    """Write texts as frames, one behind the other."""
    frames: list[Frame] = []
    whole, end, items = hashlib.sha256(), 0, 0
    with closing(_pack_all(texts, framing.codec)) as packed:
        for stored, lines, sha256 in packed:
            frames.append(Frame(end, len(stored), lines, sha256))
            whole.update(stored)
            end, items = end + len(stored), items + lines
            check_room(len(frames), items, end, framing.limits)
            spool.write(stored)
    if not frames:
        raise refuse(Reason.EMPTY, "there was no line")
    return Framed(FrameIndex(tuple(frames)), framing.codec, whole.hexdigest(), check.totals, check.items)


def _pack_all(texts: Iterable[tuple[bytes, int]], codec: Codec) -> Generator[tuple[bytes, int, str]]:
    """Yield the stored bytes of each frame, its number of lines and its hash. Threads pack some, while the caller reads on."""
    coming = iter(texts)
    first = list(islice(coming, _PACKED_AHEAD))
    if len(first) < _PACKED_AHEAD:
        # For so few, the threads would cost more than they bring.
        yield from (_pack(text, items, codec) for text, items in first)
        return
    with ThreadPoolExecutor(_PACKERS, "packer") as pool:
        packed = deque(pool.submit(_pack, *one, codec) for one in first)
        for one in coming:
            yield packed.popleft().result()
            packed.append(pool.submit(_pack, *one, codec))
        while packed:
            yield packed.popleft().result()


def _pack(text: bytes, items: int, codec: Codec) -> tuple[bytes, int, str]:
    stored = compress(text, codec)
    return stored, items, hashlib.sha256(stored).hexdigest()


def _step(framing: Framing) -> int:
    """Return the number of lines after which a frame ends at the latest: those of a chunk, or of some small chunks."""
    items = framing.chunk_items
    return framing.limits.items_most if items is None else items * max(1, framing.limits.frame_items_least // items)


def check_room(frames: int, items: int, end: int, limits: Limits) -> None:
    """Refuse a payload that has more transactions, frames or bytes than one may."""
    if frames > limits.frames_most or items > limits.items_most:
        raise refuse(
            Reason.TOO_MANY_ITEMS,
            f"it has at least {items} transactions in {frames} frames, "
            f"the limits are {limits.items_most} and {limits.frames_most}",
        )
    if end > limits.stored_most:
        raise refuse(Reason.PAYLOAD_TOO_LARGE, f"it has {end} bytes, the limit is {limits.stored_most}")
