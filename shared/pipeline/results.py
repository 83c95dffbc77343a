"""The stored result of a chunk, and the message about it.

`ResultStore` writes each result once, under its chunk's name; the first one wins. Its first line is one JSON document.
Each further line is a rejected transaction in the form of the output. So a finisher that merges a thousand results
decodes no rejections, which may be as many as the transactions.

`BusResults` sends the short message about a chunk that ended. Only from it does the ledger learn of the end.
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
    """The result of a chunk. It does not depend on when, where or how often the chunk was run."""

    job: str
    chunk: int
    revision: int
    workload: str
    accepted: PortionMessage
    rejected: PortionMessage
    #: Of the workload's own type.
    partial: Raw
    #: Only in results of an earlier version; now they are lines of their own.
    rejections: list[Raw] = []
    v: int = VERSION


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result with the name and the hash of its blob."""

    name: str
    hash: str
    result: ChunkResult


def name_of(chunk: ChunkMessage) -> str:
    """Return the name of the blob of a chunk's result."""
    return f"{chunk.job}/{chunk.revision}/{chunk.chunk}"


def result_of(chunk: ChunkMessage, ran: Ran) -> ChunkResult:
    """Return the result of a chunk from its run."""
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
    """Return a result in its stored form."""
    # A workload's raw JSON may have line feeds, but valid JSON has none inside a string, so a blank can replace each.
    head = msgspec.json.encode(result).replace(b"\n", b" ")
    size = len(head) + 1 + len(rejections)
    if size > limits.result_most:
        raise refuse(Reason.RESULT_TOO_LARGE, f"it is {size} bytes, the limit is {limits.result_most}")
    return b"".join((head, b"\n", rejections))


def read_result(content: bytes) -> tuple[ChunkResult, Iterator[bytes]]:
    """Return a stored result, and the lines of its rejections, each with its line feed."""
    stream = BytesIO(content)
    try:
        result = msgspec.json.decode(stream.readline(), type=ChunkResult)
    except (ValueError, RecursionError) as error:
        raise ResultRefusedError(
            f"a stored result cannot be read: {error}; find out who else writes to container {CONTAINER!r}"
        ) from error
    return result, (bytes(one) + b"\n" for one in result.rejections) if result.rejections else stream


def read_partial(result: ChunkResult, partial: type[Any]) -> Any:
    """Return the partial as the type of its workload."""
    try:
        return msgspec.json.decode(result.partial, type=partial)
    except (ValueError, RecursionError) as error:
        raise ResultRefusedError(
            f"the partial of chunk {result.chunk} of job {result.job!r} is not a {partial.__name__}: {error}; "
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
        """Store the result, unless the chunk has one, and return the stored one."""
        name, result = name_of(chunk), result_of(chunk, ran)
        content = write_result(result, ran.rejections, self._limits)
        with expecting_an_answer(f"write result {name!r}"):
            if self._insert(name, content):
                return StoredResult(name, hashlib.sha256(content).hexdigest(), result)
            # Another delivery of the chunk was first, or this very write was and its reply was lost. Either way the
            # stored result counts: a message must not name any other.
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
#: Upper bound of a result message: a settler holds a thousand of them, and the row keeps the same fields.
MOST_BYTES: Final = 1024
#: Results per transfer, well under the message size of the cheapest tier.
MOST_AT_ONCE: Final = 100


def result_body(result: Result) -> bytes:
    """Return the message's body, or raise ResultRefusedError when it is too large."""
    body = encode(result)
    if len(body) > MOST_BYTES:
        # Its requests and its trace are worth less than its sums.
        body = encode(structs.replace(result, requests={}, trace=None))
    if len(body) > MOST_BYTES:
        raise ResultRefusedError(
            f"the result of chunk {result.chunk} of job {result.job!r} is {len(body)} bytes, the limit is {MOST_BYTES}: "
            "give the workload fewer sums, or shorter names"
        )
    return body


@dataclass(slots=True)
class _Waiting:
    """A result to send, and its fate, for the thread that waits for it."""

    result: Result
    message: ServiceBusMessage
    is_sent: bool = False
    failure: Exception | None = None


class BusResults(Closing):
    """SendResult over Service Bus, on one connection that is kept. Close it when done.

    Threads that arrive during a transfer wait. Then one of them sends for all: one transfer and one acknowledgement
    for all their results, up to a hundred.
    """

    def __init__(self, connections: Connections) -> None:
        self._sender = BusSender(connections)
        self._waiting: deque[_Waiting] = deque()
        #: Held by the thread that sends for all.
        self._lock = Lock()

    def __call__(self, result: Result, /) -> None:
        """Send the result. A broken connection is replaced."""
        own = _Waiting(result, _message(result, result_body(result)))
        self._waiting.append(own)
        with self._lock:
            # The thread before may have sent this one, or failed to. More may wait before it than one transfer takes.
            while not own.is_sent and own.failure is None:
                self._send([self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))])
        if own.failure is not None:
            raise ResultNotSentError(
                f"could not send the result of chunk {result.chunk} of job {result.job!r} "
                f"({type(own.failure).__name__}): the next delivery of the chunk sends it again"
            ) from own.failure

    def _send(self, batch: Sequence[_Waiting]) -> None:
        # Set first: if the sending ends in another way than below, no other thread could end the wait for this batch.
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
        """Close the connection. The next result opens another."""
        with self._lock:
            self._sender.close()


def _message(result: Result, body: bytes) -> ServiceBusMessage:
    return ServiceBusMessage(body, content_type="application/json", correlation_id=bus_name(result.job))
