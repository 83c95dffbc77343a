"""The result of a chunk, packed for its message or its blob.

It is one zstd frame. Its first line is one JSON document. Each further line is a rejected transaction in the form of the
output. So a finisher that merges a thousand results decodes no rejections, which may be as many as the transactions.
Behind that frame are its [streams](streams.py), if it has any.

A small result travels in its message. `ResultStore` keeps those that are too large, and those whose message may not
have arrived: each once, under its chunk's name. The first one stays.

`BusResults` sends results to the settlers: what is there when the connection is free goes together, in one message.

The message of a result has its content where that fits, or else names the blob. Only from it does the ledger learn
of the end of a chunk.

`GroupBlobs` has the blob of the results that one table transaction credits.

A settler writes it before the rows that name it. It is the packed results, one after the other, by the numbers of their
chunks; `zstd -d` reads it. Its name is the hash of its bytes. So it is written once, and a settler that finds it there
finds what it was about to write. A blob that no row names in the end goes with the bytes of its job.

`read_results` reads the results of chunks in the order of their rows: several at a time, and a window of them at most.

A result lies in a blob of its own, or with others that one transaction credited, by the numbers of their chunks. So of
such a blob, one ranged read brings all the results that a window needs.
"""

import base64
import binascii
import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import timedelta
from io import BytesIO
from threading import Lock
from typing import IO, Any, Final, NamedTuple, Protocol, cast

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import ContainerClient
from msgspec import Raw, Struct, json, structs

from shared.azure import FAILURES, BusMessage, BusSender, Connections, Destination, expecting_an_answer
from shared.clock import Clock, Closing, SystemClock
from shared.errors import ResultNotSentError, ResultRefusedError
from shared.grammar import bus_name
from shared.ledger import ChunkRow, result_blob
from shared.messages import STREAMS_VERSION, VERSION, ChunkMessage, PortionMessage, Result, Results, encode
from shared.payload import Limits
from shared.pipeline.outputs import Ran
from shared.pipeline.streams import LINES, PARKED, Chain, Stream, StreamHead, split_streams, unpack_lines, weigh_streams
from shared.refusals import Reason, refuse
from shared.telemetry import contain
from shared.versions import decode, decode_document
from shared.zstd import MAGIC, ZstdError, pack, read_size, unpack_first

#: The container of results, and the queue of the bus that they travel on.
CONTAINER: Final = "results"
QUEUE: Final = CONTAINER
#: Upper bound of a packed result that travels in its message, and of the same result unpacked.
CONTENT_MOST: Final = 48 * 1024
EXPANDED_MOST: Final = 4 * 1024 * 1024
_MOST: Final = Limits().result_most
_ELSE: Final = f"find out who else writes to container {CONTAINER!r}"
_WRITTEN_BEFORE: Final = frozenset({409, 412})


class ChunkResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a chunk. It does not depend on when, where or how often the chunk was run."""

    job: str
    chunk: int
    revision: int
    workload: str
    accepted: PortionMessage
    rejected: PortionMessage
    #: Those that were set aside. They are in the stream `parked`. None: none was.
    parked: PortionMessage | None = None
    #: Of the workload's own type.
    partial: Raw
    #: Only in results of an earlier version; now they are lines of their own.
    rejections: list[Raw] = []
    #: Of the first chunk: bytes of the whole job's merged partial, if they cannot fit.
    expected: int | None = None
    #: The hash of the credited result whose place it takes.
    extends: str | None = None
    #: What is behind the first frame, in this order.
    streams: dict[str, StreamHead] = {}
    v: int = VERSION


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result with its blob's name, hash, and stored bytes."""

    name: str
    hash: str
    length: int
    result: ChunkResult

    @property
    def lines(self) -> int | None:
        """The bytes of its lines, the last ones, or None."""
        head = self.result.streams.get(LINES)
        return None if head is None else head.length


@dataclass(frozen=True, slots=True)
class PackedResult:
    """A result that was just made, with its first frame, its streams, and the blob that it may go to."""

    stored: StoredResult
    first: bytes
    #: The bytes of its first frame, unpacked.
    expanded: int
    streams: Mapping[str, Stream]

    @property
    def travels(self) -> bool:
        """True if it travels in its message. A settler unpacks no more than this."""
        return self.stored.length <= CONTENT_MOST and self.expanded <= EXPANDED_MOST

    @property
    def content(self) -> bytes | Chain:
        """Its bytes, for one that reads them once."""
        return Chain(self.first, self.streams) if self.streams else self.first

    @property
    def text(self) -> str:
        """Its bytes as a message has them."""
        content = self.content
        return base64.b64encode(content if isinstance(content, bytes) else content.read()).decode()


def pack_result(chunk: ChunkMessage, ran: Ran, limits: Limits, extends: str | None = None) -> PackedResult:
    """Return the result of a chunk from its run. `extends`: the hash of the credited one whose place it takes."""
    result = result_of(chunk, ran, extends)
    text = write_result(result, ran.rejections, limits)
    first = pack(text, level=1)
    name = result_blob(chunk.job, chunk.revision, chunk.chunk, extends)
    length = len(first)
    if ran.streams:
        length += weigh_streams(result.streams)
    return PackedResult(StoredResult(name, hash_result(text), length, result), first, len(text), ran.streams)


def result_of(chunk: ChunkMessage, ran: Ran, extends: str | None = None) -> ChunkResult:
    """Return the result of a chunk from its run."""
    return ChunkResult(
        job=chunk.job,
        chunk=chunk.chunk,
        revision=chunk.revision,
        workload=chunk.workload,
        accepted=ran.accepted,
        rejected=ran.rejected,
        parked=ran.failed if ran.failed.items else None,
        partial=Raw(json.encode(ran.partial)),
        expected=ran.expected or None,
        extends=extends,
        streams={name: stream.head for name, stream in ran.streams.items()},
        v=STREAMS_VERSION if ran.streams else VERSION,
    )


def write_result(result: ChunkResult, rejections: bytes, limits: Limits) -> bytes:
    """Return a result in its stored form."""
    # A workload's raw JSON may have line feeds. Valid JSON has none inside a string, so a blank replaces each.
    head = json.encode(result).replace(b"\n", b" ")
    size = len(head) + 1 + len(rejections)
    if size > limits.result_most:
        raise refuse(Reason.RESULT_TOO_LARGE, f"it is {size} bytes, the limit is {limits.result_most}")
    return b"".join((head, b"\n", rejections))


def unpack_result(name: str, stored: bytes, most: int = _MOST) -> tuple[bytes, bytes]:
    """Return the first frame of the result in the blob of this name, unpacked, and the packed bytes behind it.

    Earlier versions stored it unpacked.
    """
    if not stored.startswith(MAGIC):
        return stored, b""
    try:
        if (size := read_size(stored)) > most:
            raise ResultRefusedError(f"result {name!r} claims {size} bytes, the limit is {most}; {_ELSE}")
        return unpack_first(stored, size)
    except ZstdError as error:
        raise ResultRefusedError(f"result {name!r} cannot be unpacked: {error}; {_ELSE}") from error


def open_content(name: str, content: str, wanted: str | None, lines: int | None = None) -> bytes:
    """Return the packed result in a message, or raise ResultRefusedError if it has not the hash that it should have.

    `lines`: the bytes of its lines, as its message says. Streams are compared with their hashes, and stay packed.
    """
    try:
        packed = base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ResultRefusedError(f"the content of result {name!r} is not Base64: {error}; {_ELSE}") from error
    if len(packed) > CONTENT_MOST or not packed.startswith(MAGIC):
        raise ResultRefusedError(
            f"the content of result {name!r} has {len(packed)} bytes, expected zstd frames of at most {CONTENT_MOST}; "
            f"{_ELSE}"
        )
    first, rest = unpack_result(name, packed, EXPANDED_MOST)
    found = hash_result(first)
    if found != wanted:
        raise ResultRefusedError(f"the content of result {name!r} has hash {found}, its message says {wanted}; {_ELSE}")
    if rest or lines is not None:
        found_lines = len(_read_streams(name, read_result(first)[0], rest).get(LINES, b"")) or None
        if found_lines != lines:
            raise ResultRefusedError(
                f"result {name!r} has {found_lines} bytes of lines, its message says {lines}; {_ELSE}"
            )
    return packed


def hash_result(content: bytes) -> str:
    """Return the hash of a result, unpacked: another version of zstd packs the same otherwise."""
    return hashlib.sha256(content).hexdigest()


def read_result(content: bytes) -> tuple[ChunkResult, Iterator[bytes]]:
    """Return a stored result, and the lines of its rejections, each with its line feed."""
    stream = BytesIO(content)
    try:
        result: ChunkResult = decode_document(stream.readline(), ChunkResult, "chunk result", "a stored result")
    except (ValueError, RecursionError) as error:
        raise ResultRefusedError(f"a stored result cannot be read: {error}; {_ELSE}") from error
    return result, (bytes(one) + b"\n" for one in result.rejections) if result.rejections else stream


@contain()
def read_partial(result: ChunkResult, partial: type[Any]) -> Any:
    """Return the partial as the type of its workload."""
    try:
        return decode(result.partial, partial)
    except (ValueError, RecursionError) as error:
        raise ResultRefusedError(
            f"the partial of chunk {result.chunk} of job {result.job!r} is not a {partial.__name__}: {error}; "
            f"was the type of workload {result.workload!r} changed while the job ran?"
        ) from error


class ResultStore:
    """The container of results."""

    def __init__(self, container: ContainerClient) -> None:
        self._container = container

    def find(self, chunk: ChunkMessage, extends: str | None = None) -> StoredResult | None:
        """Return the stored result of a chunk, or the one that extends another, or None."""
        name = result_blob(chunk.job, chunk.revision, chunk.chunk, extends)
        with expecting_an_answer(f"read result {name!r}"):
            try:
                stored: bytes = self._container.download_blob(name).readall()
            except ResourceNotFoundError:
                return None
        return _to_stored_result(name, stored)

    def open(self, row: ChunkRow) -> "Opened":
        """Return the credited result of a row, with its lines, however long they are."""
        return next(read_results(self._container, [replace(row, lines=None)]))

    def put(self, packed: PackedResult) -> StoredResult:
        """Store the result, unless its chunk has one, and return the stored one."""
        name = packed.stored.name
        with expecting_an_answer(f"write result {name!r}"):
            if self._insert(name, packed):
                return packed.stored
            # Another delivery of the chunk was first, or this very write was and its reply was lost. Either way the
            # stored result counts: a message must not name any other.
            return _to_stored_result(name, self._container.download_blob(name).readall())

    def _insert(self, name: str, packed: PackedResult) -> bool:
        try:
            # Without `overwrite` the request says If-None-Match: *.
            self._container.upload_blob(name, cast("IO[str]", packed.content), length=packed.stored.length)
        except HttpResponseError as refusal:
            if refusal.status_code not in _WRITTEN_BEFORE:
                raise
            return False
        return True


def _to_stored_result(name: str, stored: bytes) -> StoredResult:
    content, rest = unpack_result(name, stored)
    result, _ = read_result(content)
    _read_streams(name, result, rest)
    return StoredResult(name, hash_result(content), len(stored), result)


def _read_streams(name: str, result: ChunkResult, rest: bytes) -> Mapping[str, bytes]:
    # Nearly every result has none.
    return split_streams(name, result.streams, rest) if rest or result.streams else {}


_RESULTS: Final = Destination("bus", QUEUE)
#: Upper bound of a result without its content: the row keeps the same fields.
MOST_BYTES: Final = 1536
#: Results of one message, and its bytes. The cheapest tier takes 256 KB, with headers.
MOST_AT_ONCE: Final = 100
BUNDLE_MOST: Final = 192 * 1024
#: The property of a message that a settler put off: how often. The pause until it arrives.
LOOKS_PROPERTY: Final = "looks"
LATER: Final = timedelta(seconds=30)
#: What a message has around its results.
_ENVELOPE: Final = 64


@dataclass(frozen=True, slots=True)
class Received:
    """One message from the queue of results."""

    body: bytes
    id: str
    #: Number of its deliveries, this one included.
    deliveries: int = 1
    #: How often a settler put it off because of something newer.
    looks: int = 0


class SendResult(Protocol):
    """Sends one result, or raises ResultNotSentError. After an error, the result may have arrived nevertheless."""

    def __call__(self, result: Result, /) -> None:
        """Send the result."""
        ...


def trim_result(result: Result) -> Result:
    """Return the result in the form that is sent, or raise ResultRefusedError when it is too large beside its content."""
    if _size_beside_content(result) <= MOST_BYTES:
        return result
    # Its requests and its trace are worth less than its sums.
    trimmed = structs.replace(result, requests={}, trace=None)
    size = _size_beside_content(trimmed)
    if size > MOST_BYTES:
        raise ResultRefusedError(
            f"the result of chunk {result.chunk} of job {result.job!r} is {size} bytes, the limit is {MOST_BYTES}: "
            "give the workload fewer sums, or shorter names"
        )
    return trimmed


def _size_beside_content(result: Result) -> int:
    return len(encode(result)) - len(result.content or "")


@dataclass(slots=True)
class _Waiting:
    """A result to send, and its fate, for the thread that waits for it."""

    result: Result
    size: int
    is_sent: bool = False
    failure: Exception | None = None


class BusResults(Closing):
    """SendResult over Service Bus, on one connection that is kept. Close it when done.

    Threads that arrive during a transfer wait. Then one of them sends for all: one message for all their results, as
    far as it takes them.
    """

    def __init__(self, connections: Connections, clock: Clock | None = None) -> None:
        self._sender, self._clock = BusSender(connections), clock or SystemClock()
        self._waiting: deque[_Waiting] = deque()
        #: Held by the thread that sends for all.
        self._lock = Lock()

    def __call__(self, result: Result, /) -> None:
        """Send the result. A broken connection is replaced."""
        trimmed = trim_result(result)
        own = _Waiting(trimmed, len(encode(trimmed)))
        self._waiting.append(own)
        with self._lock:
            # The thread before may have sent this one, or failed to. More may wait before it than one message takes.
            while not own.is_sent and own.failure is None:
                self._send(list(self._take()))
        if own.failure is not None:
            raise ResultNotSentError(
                f"could not send the result of chunk {result.chunk} of job {result.job!r} "
                f"({type(own.failure).__name__}): the next delivery of the chunk sends it again"
            ) from own.failure

    def send_later(self, messages: Sequence[Received]) -> None:
        """Send received messages once more, as they are, to arrive in half a minute.

        Raises ResultNotSentError: the batch is delivered again, and some of them may come twice.
        """
        for one in messages:
            again = BusMessage(body=one.body, properties={LOOKS_PROPERTY: one.looks + 1})
            try:
                self._sender.send(_RESULTS, [again], at=self._clock.now() + LATER)
            except FAILURES as error:
                raise ResultNotSentError(
                    f"could not send result message {one.id!r} once more ({type(error).__name__}): the next delivery does"
                ) from error

    def _take(self) -> Iterator[_Waiting]:
        """Take what goes into the next message, at least one."""
        held, taken = _ENVELOPE, 0
        while self._waiting and taken < MOST_AT_ONCE and (not taken or held + self._waiting[0].size <= BUNDLE_MOST):
            one = self._waiting.popleft()
            held, taken = held + one.size + 1, taken + 1
            yield one

    def _send(self, batch: Sequence[_Waiting]) -> None:
        # Set first: if the sending ends in another way than below, no other thread could end the wait for this batch.
        for one in batch:
            one.failure = ConnectionError("the sending was interrupted")
        failure: Exception | None = None
        try:
            self._sender.send(_RESULTS, [_message([one.result for one in batch])])
        except FAILURES as error:
            failure = error
        for one in batch:
            one.is_sent, one.failure = failure is None, failure

    def close(self) -> None:
        """Close the connection. The next result opens another."""
        with self._lock:
            self._sender.close()


def _message(results: Sequence[Result]) -> BusMessage:
    body = encode(results[0] if len(results) == 1 else Results(results=list(results)))
    jobs = {result.job for result in results}
    name = bus_name(jobs.pop()) if len(jobs) == 1 else None
    return BusMessage(body=body, correlation=name)


@dataclass(frozen=True, slots=True)
class GroupBlob:
    """Packed results side by side, and where each lies."""

    name: str
    content: bytes
    #: Offset and length, by the chunk and the hash of its result: of a chunk that ran twice, never the other run.
    places: Mapping[tuple[int, str | None], tuple[int, int]]

    def holds(self, rows: Iterable[ChunkRow]) -> bool:
        """Check whether the results of all these rows are in it."""
        return all((row.chunk, row.hash) in self.places for row in rows)

    def place(self, row: ChunkRow) -> ChunkRow:
        """Return the row with the place of its result, if it is in here."""
        found = self.places.get((row.chunk, row.hash))
        return row if found is None else replace(row, blob=self.name, offset=found[0], length=found[1])


def assemble(job: str, results: Iterable[tuple[ChunkRow, bytes]]) -> GroupBlob:
    """Return the blob of these rows and their packed results."""
    ordered = sorted(results, key=lambda one: one[0].chunk)
    places, offset = {}, 0
    for row, packed in ordered:
        places[row.chunk, row.hash] = offset, len(packed)
        offset += len(packed)
    content = b"".join(packed for _, packed in ordered)
    return GroupBlob(f"{job}/groups/{hashlib.sha256(content).hexdigest()}", content, places)


class GroupBlobs:
    """The container of results, as settlers write to it."""

    def __init__(self, container: ContainerClient) -> None:
        self._container = container

    def put(self, blob: GroupBlob) -> None:
        """Write the blob, unless it is there."""
        with expecting_an_answer(f"write results {blob.name!r}"):
            try:
                # Without `overwrite` the request says If-None-Match: *.
                self._container.upload_blob(blob.name, blob.content)
            except HttpResponseError as refusal:
                # Its name says what is in it.
                if refusal.status_code not in _WRITTEN_BEFORE:
                    raise


#: Results of a window that lie in blobs of their own, in memory or being read, and the threads that read them.
WINDOW: Final = 16
READERS: Final = 8
#: Upper bound of their bytes together, estimated from their transactions. One result is read whether it fits or not.
WINDOW_BYTES: Final = 32 * 1024 * 1024
#: Upper bound of the packed bytes that are read from the blobs of several results at a time.
SLICES_MOST: Final = 8 * 1024 * 1024
_RESULT_BYTES, _ITEM_BYTES = 16 * 1024, 192
#: Packed lines that are read together with the rest of their result. Longer ones are read by themselves.
LINES_TOGETHER: Final = 1024 * 1024


class Opened(NamedTuple):
    """A result that was read: the lines of its rejections, each with its line feed, and its streams, packed.

    Long lines are not among the streams: who copies them reads them by themselves.
    """

    row: ChunkRow
    result: ChunkResult
    rejections: Iterator[bytes]
    streams: Mapping[str, bytes]


def read_parked(opened: Opened) -> Iterator[bytes]:
    """Yield the lines of the transactions that a result set aside, each with its line feed."""
    if PARKED in opened.streams:
        yield from unpack_lines(opened.row.blob or "", opened.streams[PARKED])


class _Range(NamedTuple):
    """Bytes of one blob that are being read, and where they begin in it."""

    offset: int
    content: Future[bytes]


def read_results(container: ContainerClient, rows: Iterable[ChunkRow]) -> Iterator[Opened]:
    """Yield the result of each row."""
    with ThreadPoolExecutor(READERS) as pool:
        for window in cut_windows(rows):
            yield from _read_window(container, pool, window)


def cut_windows(rows: Iterable[ChunkRow]) -> Iterator[list[ChunkRow]]:
    """Cut rows into windows, by the packed bytes of those results that lie with others."""
    window: list[ChunkRow] = []
    held = 0
    for row in rows:
        size = 0 if row.offset is None else row.length or 0
        if window and held + size > SLICES_MOST:
            yield window
            window, held = [], 0
        window.append(row)
        held += size
    if window:
        yield window


def _read_window(container: ContainerClient, pool: ThreadPoolExecutor, window: Sequence[ChunkRow]) -> Iterator[Opened]:
    spans: dict[str, tuple[int, int]] = {}
    for row in window:
        if row.offset is not None:
            begin, end = spans.get(row.blob or "", (row.offset, 0))
            spans[row.blob or ""] = min(begin, row.offset), max(end, row.offset + (row.length or 0))
    ranges: dict[str, _Range] = {}

    def start(row: ChunkRow) -> _Range:
        name = row.blob or ""
        if name in ranges:
            return ranges[name]
        begin, end = spans.get(name, (0, _end_of_first(row)))
        # In a copy of this context, so that the request is counted for this job.
        found = _Range(begin, pool.submit(copy_context().run, _read, container, row, begin, end))
        return ranges.setdefault(name, found) if name in spans else found

    coming: deque[tuple[int, ChunkRow, _Range]] = deque()
    held = 0
    for row in window:
        size = _RESULT_BYTES + row.totals.items * _ITEM_BYTES + min(row.lines or 0, LINES_TOGETHER)
        # The others are read while this one is merged.
        while coming and (len(coming) == WINDOW or held + size > WINDOW_BYTES):
            first, before, range_ = coming.popleft()
            yield _open(before, range_)
            held -= first
        coming.append((size, row, start(row)))
        held += size
    while coming:
        _, row, range_ = coming.popleft()
        yield _open(row, range_)


def _end_of_first(row: ChunkRow) -> int | None:
    """Return where the first read of a result in a blob of its own ends. None: it is read whole."""
    return None if row.lines is None or row.lines <= LINES_TOGETHER else (row.length or 0) - row.lines


def _read(container: ContainerClient, row: ChunkRow, begin: int, end: int | None) -> bytes:
    name = row.blob or ""
    with expecting_an_answer(f"read result {name!r}"):
        try:
            if end is None:
                whole: bytes = container.download_blob(name).readall()
                return whole
            part: bytes = container.download_blob(name, offset=begin, length=end - begin).readall()
        except ResourceNotFoundError as missing:
            raise ResultRefusedError(
                f"result {name!r} is gone although chunk {row.chunk} of job {row.job!r} is done: restore the blob"
            ) from missing
    return part


def _open(row: ChunkRow, range_: _Range) -> Opened:
    stored, name = range_.content.result(), row.blob or ""
    if row.offset is not None:
        begin = row.offset - range_.offset
        stored = stored[begin : begin + (row.length or 0)]
    content, rest = unpack_result(name, stored)
    found = hash_result(content)
    if found != row.hash:
        raise ResultRefusedError(
            f"result {name!r} of chunk {row.chunk} has hash {found}, the ledger says {row.hash}: restore the blob that "
            "was settled"
        )
    result, rejections = read_result(content)
    streams = result.streams
    if row.offset is None and _end_of_first(row) is not None:
        streams = {name: head for name, head in streams.items() if name != LINES}
    return Opened(row, result, rejections, split_streams(name, streams, rest) if rest or streams else {})
