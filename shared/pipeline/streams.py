"""Streams: lines that a chunk made, packed behind the first frame of its result.

A result is one frame, or that frame with streams behind it, which its head names. A stream is zstd frames side by side, so
it is copied without being unpacked. The head has the hash of its packed bytes. So the hash of the first frame covers all.

The stream `lines` is the last one: a reader that needs only what is before it reads no further.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import IO, Final, NamedTuple, TypeVar

from msgspec import Struct

from shared.errors import ResultRefusedError
from shared.messages import Count, Number
from shared.refusals import Reason, refuse
from shared.zstd import ZstdError, make_packer, unpack_first

K = TypeVar("K")
#: The stream of the lines that a workload makes of its transactions.
LINES: Final = "lines"
#: The stream of the transactions that were set aside.
PARKED: Final = "parked"
#: Upper bound of a stream, unpacked.
STREAM_MOST: Final = 256 * 1024 * 1024
#: Unpacked bytes after which a frame ends. A reader takes whole frames, so this bounds its memory.
FRAME_BYTES: Final = 4 * 1024 * 1024
#: Packed bytes that stay in memory; more go to a file.
_IN_MEMORY: Final = 1024 * 1024
#: Lines are packed by so many bytes, for a call of the packer costs more than a short line.
_PACKED_AT_ONCE: Final = 128 * 1024


class StreamFrame(Struct, frozen=True, array_like=True):
    """One frame of a stream: its lines, their bytes, and the packed ones."""

    items: Count
    bytes: Count
    length: Count


class StreamHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The entry of a stream in the head of its result: lines, their bytes, the packed ones, and the hash of these."""

    items: Count
    bytes: Number
    length: Count
    sha256: str
    #: Left out if there is one.
    frames: list[StreamFrame] = []

    def list_frames(self) -> list[StreamFrame]:
        """Return the frames, in their order."""
        return self.frames or [StreamFrame(self.items, self.bytes, self.length)]


class Stream(NamedTuple):
    """A stream that was just made. Its packed bytes are in memory, or in a file."""

    head: StreamHead
    content: IO[bytes]

    def read(self) -> bytes:
        """Return the packed bytes."""
        self.content.seek(0)
        return self.content.read()


class _Spool(SpooledTemporaryFile[bytes]):
    """A file that is closed when nothing refers to it any more: a run that fails leaves its own."""

    def __del__(self) -> None:
        self.close()


class StreamWriter:
    """Packs lines into a stream. The same lines always make the same bytes."""

    def __init__(self) -> None:
        self._spool, self._digest, self._frames = _Spool(_IN_MEMORY), sha256(), list[StreamFrame]()
        self._waiting = bytearray()
        self._bytes = self._length = 0
        self._begin()

    def add(self, lines: bytes, items: int) -> None:
        """Add whole lines, each with its line feed."""
        self._bytes += len(lines)
        if self._bytes > STREAM_MOST:
            raise refuse(
                Reason.RESULT_TOO_LARGE, f"its lines are more than {STREAM_MOST} bytes, which is the limit of a chunk"
            )
        # A frame ends behind the line that fills it, however the lines come.
        while (room := FRAME_BYTES - self._size) <= len(lines):
            end = lines.find(b"\n", room - 1) + 1
            taken = lines.count(b"\n", 0, end)
            self._take(lines[:end], taken)
            lines, items = lines[end:], items - taken
            self._end()
            self._begin()
        self._take(lines, items)

    def _take(self, lines: bytes, items: int) -> None:
        self._waiting += lines
        self._items += items
        self._size += len(lines)
        while len(self._waiting) >= _PACKED_AT_ONCE:
            self._keep(self._packer.compress(self._waiting[:_PACKED_AT_ONCE]))
            del self._waiting[:_PACKED_AT_ONCE]

    def close(self) -> Stream | None:
        """Return the stream, or None if it has no lines."""
        if self._items:
            self._end()
        if not self._frames:
            return None
        head = StreamHead(
            items=sum(frame.items for frame in self._frames),
            bytes=self._bytes,
            length=self._length,
            sha256=self._digest.hexdigest(),
            frames=self._frames if len(self._frames) > 1 else [],
        )
        return Stream(head, self._spool)

    def _begin(self) -> None:
        self._packer, self._items, self._size, self._before = make_packer(level=1), 0, 0, self._length

    def _end(self) -> None:
        self._keep(self._packer.compress(self._waiting, self._packer.FLUSH_FRAME))
        self._waiting.clear()
        self._frames.append(StreamFrame(self._items, self._size, self._length - self._before))

    def _keep(self, packed: bytes) -> None:
        self._spool.write(packed)
        self._digest.update(packed)
        self._length += len(packed)


class LineRows:
    """Packs the lines of a chunk: a stream for each row of neighbours. Lines of others may come between two rows later."""

    def __init__(self, first: int) -> None:
        """Begin with the transaction of this id."""
        self._first, self._writer, self._rows = first, StreamWriter(), dict[int, Stream]()

    def add(self, lines: bytes, items: int, /) -> None:
        """Add whole lines, each with its line feed."""
        self._writer.add(lines, items)

    def begin_row(self, first: int, /) -> None:
        """Have a row begin with the transaction of this id."""
        if stream := self._writer.close():
            self._rows[self._first], self._writer = stream, StreamWriter()
        self._first = first

    def close(self) -> dict[int, Stream]:
        """Return the rows that have lines, by the ids of their first transactions."""
        self.begin_row(self._first)
        return self._rows


def join_rows(rows: Mapping[int, Stream]) -> dict[str, Stream]:
    """Return the lines of all rows as the stream of a result, in the order of the transactions. Without rows it has none."""
    if len(rows) > 1:
        writer = StreamWriter()
        for _, row in sorted(rows.items()):
            for lines in unpack_frames(LINES, row.read()):
                writer.add(lines, lines.count(b"\n"))
        joined = writer.close()
    else:
        joined = next(iter(rows.values()), None)
    return {} if joined is None else {LINES: joined}


class Chain:
    """The first frame of a result and its streams, read as one file."""

    def __init__(self, first: bytes, streams: Mapping[str, Stream]) -> None:
        self._first, self._rest = memoryview(first), [one.content for one in streams.values()]
        for one in self._rest:
            one.seek(0)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, all that are left without a size."""
        taken = bytearray()
        while size < 0 or len(taken) < size:
            left = -1 if size < 0 else size - len(taken)
            if self._first:
                found = bytes(self._first) if left < 0 else bytes(self._first[:left])
                self._first = self._first[len(found) :]
            elif self._rest:
                found = self._rest[0].read(left)
                if not found:
                    del self._rest[0]
            else:
                break
            taken += found
        return bytes(taken)


def split_streams(name: str, heads: Mapping[K, StreamHead], packed: bytes) -> dict[K, bytes]:
    """Return the packed bytes of each stream, after comparing their hashes. They lie side by side, in the order of the heads."""
    found, place = {}, 0
    for stream, head in heads.items():
        found[stream] = content = packed[place : place + head.length]
        place += head.length
        if sha256(content).hexdigest() != head.sha256:
            raise ResultRefusedError(f"stream {stream!r} of result {name!r} does not have the hash in its head")
    if place != len(packed):
        raise ResultRefusedError(
            f"{len(packed)} bytes follow the first frame of result {name!r}, and its head says {place}"
        )
    return found


def unpack_frames(name: str, packed: bytes) -> Iterator[bytes]:
    """Yield the lines of each frame of a stream. A frame has the last of them above FRAME_BYTES."""
    while packed:
        try:
            lines, packed = unpack_first(packed, 2 * FRAME_BYTES)
        except ZstdError as error:
            raise ResultRefusedError(f"a stream of result {name!r} cannot be unpacked: {error}") from error
        yield lines


def unpack_lines(name: str, packed: bytes) -> Iterator[bytes]:
    """Yield the lines of a stream, each with its line feed."""
    for lines in unpack_frames(name, packed):
        yield from BytesIO(lines)


def weigh_streams(heads: Mapping[str, StreamHead]) -> int:
    """Return the packed bytes of the streams."""
    return sum(head.length for head in heads.values())
