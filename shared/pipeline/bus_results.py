"""Results on their way to the settlers: what is there when the connection is free goes together, in one message.

The message of a result has its content where that fits, or else names the blob. Only from it does the ledger learn
of the end of a chunk.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import Any, Final, Protocol

from azure.servicebus import ServiceBusMessage
from msgspec import structs

from shared.azure import FAILURES, BusSender, Connections, Destination
from shared.clock import Clock, SystemClock
from shared.closing import Closing
from shared.errors import ResultNotSentError, ResultRefusedError
from shared.grammar import bus_name
from shared.messages import Result, Results, encode
from shared.pipeline.results import QUEUE

_RESULTS: Final = Destination("bus", QUEUE)
#: Upper bound of a result without its content: the row keeps the same fields.
MOST_BYTES: Final = 1024
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
            looks: dict[str | bytes, Any] = {LOOKS_PROPERTY: one.looks + 1}
            again = ServiceBusMessage(one.body, content_type="application/json", application_properties=looks)
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


def _message(results: Sequence[Result]) -> ServiceBusMessage:
    body = encode(results[0] if len(results) == 1 else Results(results=list(results)))
    jobs = {result.job for result in results}
    name = bus_name(jobs.pop()) if len(jobs) == 1 else None
    return ServiceBusMessage(body, content_type="application/json", correlation_id=name)
