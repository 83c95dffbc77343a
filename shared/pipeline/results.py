"""The result of a chunk as it is stored: written once under its chunk's name, the first one wins.

Its first line is one JSON document; each line behind it is a rejected transaction, as it goes into the output. So whoever
merges a thousand results decodes no rejections, which may be as many as the transactions.

Sends the short message about a chunk that ended; the ledger learns of it from nothing else.
"""

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from threading import Lock
from typing import Any, Final

import msgspec
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.servicebus import ServiceBusMessage
from azure.storage.blob import ContainerClient, ContentSettings
from msgspec import Raw, Struct, structs

from shared.azure import FAILURES, BusSender, Connections, Destination, expecting_an_answer
from shared.closing import Closing
from shared.errors import ResultNotSentError, ResultRefusedError
from shared.grammar import bus_name
from shared.messages import VERSION, ChunkMessage, PortionMessage, Result, encode
from shared.payload import Limits
from shared.pipeline.outputs import Ran
from shared.refusals import Reason, refuse

CONTAINER: Final = "results"
_JSON: Final = ContentSettings(content_type="application/json")
_WRITTEN_BEFORE: Final = frozenset({409, 412})


class ChunkResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a chunk came to; nothing in it depends on when, where or how often it was run."""

    job: str
    chunk: int
    revision: int
    workload: str
    accepted: PortionMessage
    rejected: PortionMessage
    #: Of the workload's own type.
    partial: Raw
    #: Where a version before wrote them.
    rejections: list[Raw] = []
    v: int = VERSION


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result with the name and the hash of its blob."""

    name: str
    hash: str
    result: ChunkResult


def name_of(chunk: ChunkMessage) -> str:
    """Return the name of the blob that a chunk's result has."""
    return f"{chunk.job}/{chunk.revision}/{chunk.chunk}"


def result_of(chunk: ChunkMessage, ran: Ran) -> ChunkResult:
    """Return the result of a chunk that was run."""
    return ChunkResult(
        job=chunk.job,
        chunk=chunk.chunk,
        revision=chunk.revision,
        workload=chunk.workload,
        accepted=ran.accepted,
        rejected=ran.rejected,
        partial=Raw(msgspec.json.encode(ran.partial)),
    )


def write_result(result: ChunkResult, rejections: bytes, limits: Limits) -> bytes:
    """Return a result as it is stored."""
    # A line feed in valid JSON is never inside a string; a workload's own raw text may have one.
    head = msgspec.json.encode(result).replace(b"\n", b" ")
    size = len(head) + 1 + len(rejections)
    if size > limits.result_most:
        raise refuse(Reason.RESULT_TOO_LARGE, f"it has {size} bytes, {limits.result_most} may be")
    return b"".join((head, b"\n", rejections))


def read_result(content: bytes) -> tuple[ChunkResult, Iterator[bytes]]:
    """Return a result as it was stored, and the lines of its rejections, each with its line feed."""
    stream = BytesIO(content)
    try:
        result = msgspec.json.decode(stream.readline(), type=ChunkResult)
    except (ValueError, RecursionError) as error:
        raise ResultRefusedError(
            f"a stored result cannot be read: {error}; look who else writes {CONTAINER}"
        ) from error
    return result, (bytes(one) + b"\n" for one in result.rejections) if result.rejections else stream


def read_partial(result: ChunkResult, partial: type[Any]) -> Any:
    """Return the partial as the type of its workload."""
    try:
        return msgspec.json.decode(result.partial, type=partial)
    except (ValueError, RecursionError) as error:
        raise ResultRefusedError(
            f"the partial of chunk {result.chunk} of job {result.job!r} is no {partial.__name__}: {error}; "
            f"was the type of workload {result.workload!r} changed while the job ran?"
        ) from error


class ResultStore:
    """The container of results."""

    def __init__(self, container: ContainerClient, limits: Limits | None = None) -> None:
        self._container, self._limits = container, limits or Limits()

    def find(self, chunk: ChunkMessage) -> StoredResult | None:
        """Return the stored result of a chunk, or None."""
        name = name_of(chunk)
        with expecting_an_answer(f"read result {name!r}"):
            try:
                content: bytes = self._container.download_blob(name).readall()
            except ResourceNotFoundError:
                return None
        return _to_stored_result(name, content)

    def put(self, chunk: ChunkMessage, ran: Ran) -> StoredResult:
        """Store the result and return what is stored: this one, or the one of whoever was first."""
        name, result = name_of(chunk), result_of(chunk, ran)
        content = write_result(result, ran.rejections, self._limits)
        with expecting_an_answer(f"write result {name!r}"):
            if self._insert(name, content):
                return StoredResult(name, hashlib.sha256(content).hexdigest(), result)
            # Another delivery of the same chunk was first, or this very write was, and its reply was lost. Either way
            # what is stored is the result: a message about any other would be about nothing.
            return _to_stored_result(name, self._container.download_blob(name).readall())

    def _insert(self, name: str, content: bytes) -> bool:
        try:
            # Without `overwrite` the request says If-None-Match: *.
            self._container.upload_blob(name, content, content_settings=_JSON)
        except HttpResponseError as refusal:
            if refusal.status_code not in _WRITTEN_BEFORE:
                raise
            return False
        return True


def _to_stored_result(name: str, content: bytes) -> StoredResult:
    return StoredResult(name, hashlib.sha256(content).hexdigest(), read_result(content)[0])


QUEUE: Final = "results"
_RESULTS: Final = Destination("bus", QUEUE)
#: What a result message may have: a settler holds a thousand of them, and the row keeps the same fields.
MOST_BYTES: Final = 1024
#: Results in one transfer, well under what a message of the cheapest tier may have.
MOST_AT_ONCE: Final = 100


def result_body(result: Result) -> bytes:
    """Return the message's body; raises ResultRefusedError when it is too large."""
    body = encode(result)
    if len(body) > MOST_BYTES:
        # What it took is worth less than what came of it.
        body = encode(structs.replace(result, requests={}, trace=None))
    if len(body) > MOST_BYTES:
        raise ResultRefusedError(
            f"the result of chunk {result.chunk} of job {result.job!r} has {len(body)} bytes, {MOST_BYTES} may be: "
            "give the workload fewer sums, or shorter names"
        )
    return body


@dataclass(slots=True)
class _Waiting:
    """A result on its way, for the thread that must not return before it has arrived."""

    result: Result
    message: ServiceBusMessage
    is_sent: bool = False
    failure: Exception | None = None


class BusResults(Closing):
    """SendResult over Service Bus, on one connection that is kept; close it when done.

    Threads that come while others send wait for one thread that sends for all of them: one transfer and one
    acknowledgement for as many results as there are.
    """

    def __init__(self, connections: Connections) -> None:
        self._sender = BusSender(connections)
        self._waiting: deque[_Waiting] = deque()
        #: Of the thread that sends for all.
        self._lock = Lock()

    def __call__(self, result: Result, /) -> None:
        """Send the result, on a new connection where the one that is there is broken."""
        own = _Waiting(result, _message(result, result_body(result)))
        self._waiting.append(own)
        with self._lock:
            # Whoever had the lock may have sent this one, or failed to; those before it may be more than go at once.
            while not own.is_sent and own.failure is None:
                self._send([self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))])
        if own.failure is not None:
            raise ResultNotSentError(
                f"the result of chunk {result.chunk} of job {result.job!r} was not sent "
                f"({type(own.failure).__name__}): it is sent again at the next delivery of the chunk"
            ) from own.failure

    def _send(self, batch: Sequence[_Waiting]) -> None:
        # Should the sending end in any other way than below, nobody else would be left to settle the batch's fate.
        for one in batch:
            one.failure = ConnectionError("the sending was interrupted")
        failure: Exception | None = None
        try:
            self._sender.send(_RESULTS, [one.message for one in batch])
        except FAILURES as error:
            failure = error
        for one in batch:
            one.is_sent, one.failure = failure is None, failure

    def close(self) -> None:
        """Close the connection; the next result opens another."""
        with self._lock:
            self._sender.close()


def _message(result: Result, body: bytes) -> ServiceBusMessage:
    return ServiceBusMessage(body, content_type="application/json", correlation_id=bus_name(result.job))
