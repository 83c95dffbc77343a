"""Sends the short message about a chunk that ended; the ledger learns of it from nothing else."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol

from azure.servicebus import ServiceBusMessage
from msgspec import structs

from shared.bus import FAILURES, BusSender, Destination
from shared.closing import Closing
from shared.connections import Connections
from shared.errors import ResultNotSentError, ResultRefusedError
from shared.payload.names import bus_name
from shared.pipeline.messages import Result, encode

QUEUE: Final = "results"
_RESULTS: Final = Destination("bus", QUEUE)
#: What a result message may have: a settler holds a thousand of them, and the row keeps the same fields.
MOST_BYTES: Final = 1024
#: Results in one transfer, well under what a message of the cheapest tier may have.
MOST_AT_ONCE: Final = 100


class SendResult(Protocol):
    """Sends one result, or raises ResultNotSentError; whether it arrived is not known then."""

    def __call__(self, result: Result, /) -> None:
        """Send it."""
        ...


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
