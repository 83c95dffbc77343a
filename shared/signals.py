"""The topic `signals`: hints to check a gate or a job. The queues `permits` or `wake`, to work, and `hints`: of a drop.

Each may be lost. That costs latency, not work: the next poll or the tick finds the same work.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from threading import Lock, Thread, Timer
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from azure.core.exceptions import AzureError

from shared.azure import FAILURES, BusMessage, BusOperation, BusPost, BusSender, Connections, Destination
from shared.clock import Clock, Closing, SystemClock
from shared.errors import SignalNotSentError
from shared.messages import FeedCall, Permit, encode_permit
from shared.telemetry import describe_error, events, tell
from shared.topology import HINTS, PERMITS, SIGNAL_LIFE

if TYPE_CHECKING:
    from azure.storage.queue import QueueClient

TOPIC: Final = "signals"
_SIGNALS: Final = Destination("topic", TOPIC)
_PERMITS: Final = Destination("bus", PERMITS)
#: The property of a hint that names the queue of submissions to look at.
HINTED_QUEUE: Final = "queue"
#: The kind of a signal, by which subscriptions filter.
RELEASE: Final = "release"
#: Permits per transfer, well under the message size of the cheapest tier.
MOST_AT_ONCE: Final = 100
#: Seconds after a hint that failed in which none is sent.
QUIET_SECONDS: Final = 30.0
#: Hints of a publisher in a second that go at once, and seconds between the ones after them.
AT_ONCE, GATHERED_FOR = 5, 0.25


@dataclass(frozen=True, slots=True)
class Hint:
    """A signal to check a gate or a job. Its receiver reads both itself and trusts nothing in the hint."""

    gate: str = ""
    #: The id of the held entry at which to continue.
    since: str = ""
    #: A job whose dispatch stopped for lack of time.
    job: str = ""
    #: The slice of the gate's entries to release. None: all of them.
    slice: int | None = None

    @classmethod
    def of(cls, subject: str | None, properties: Mapping[str, object]) -> "Hint":
        """Return the hint of a message on the bus."""
        gate, since, job = (str(properties.get(name) or "") for name in ("gate", "since", "job"))
        number = properties.get("slice")
        return cls(subject or gate, since, job, number if isinstance(number, int) else None)


class Signals(Protocol):
    """Sends hints to listeners: a gate was opened, or a job has more to do."""

    def connect(self, within: float) -> None:
        """Get ready to send at once. Return after so many seconds even if that has failed or still goes on."""
        ...

    def send(self, gate: str, epoch: int, at: datetime | None = None) -> None:
        """Send the hint to check a gate, which the bus holds back until `at`. Or raise SignalNotSentError."""
        ...

    def send_on(self, hints: Sequence[Hint], epoch: int) -> None:
        """Have an invocation continue at each of these places behind a gate, or raise SignalNotSentError."""
        ...

    def send_job(self, job: str) -> None:
        """Send the hint to continue with a job, or raise SignalNotSentError."""
        ...


def send_signal(signals: Signals, gate: str, epoch: int, at: datetime | None = None) -> str:
    """Signal an opening to all listeners. Return "", or why no signal was sent: no failure, because the flag decides.

    With `at`, the opening is planned, and the bus holds the signal back until then.
    """
    try:
        signals.send(gate, epoch, at)
    except SignalNotSentError as error:
        tell(events.SIGNAL_UNSENT, gate=gate, epoch=epoch)
        return str(error)
    return ""


class _Kept(Closing):
    """Holds a connection to the bus."""

    _sender: BusSender

    def close(self) -> None:
        """Close the connection."""
        self._sender.close()


class BusSignals(_Kept):
    """Signals on Service Bus, on a connection that is kept. Close it when done."""

    def __init__(self, connections: Connections) -> None:
        self._sender = BusSender(connections, attempts=1)
        #: Why the last connection could not be opened ahead. The signal that it was for is not tried on another one.
        self._failure: Exception | None = None

    def connect(self, within: float) -> None:
        """Open the connection, which takes longer than the signal. A bus that does not answer is not waited for."""
        thread = Thread(target=self._try_connect, name="bus-signals", daemon=True)
        thread.start()
        thread.join(within)

    def _try_connect(self) -> None:
        try:
            self._sender.connect(_SIGNALS)
        except FAILURES as error:
            self._failure = error
        else:
            self._failure = None

    def send(self, gate: str, epoch: int, at: datetime | None = None) -> None:
        """Send the hint to check a gate, which the bus holds back until `at`. Or raise SignalNotSentError."""
        opens = "is open" if at is None else "opens later"
        self._send([release_message(gate, epoch)], f"that gate {gate!r} {opens} at epoch {epoch}", at)

    def send_on(self, hints: Sequence[Hint], epoch: int) -> None:
        """Have an invocation continue at each of these places behind a gate, or raise SignalNotSentError."""
        messages = [place_message(hint, epoch) for hint in hints]
        self._send(messages, f"that there is more to release behind gate {hints[0].gate!r}")

    def send_job(self, job: str) -> None:
        """Send the hint to continue with a job, or raise SignalNotSentError."""
        self._send([job_message(job)], f"that there is more to do for job {job!r}")

    def _send(self, messages: Sequence[BusMessage], saying: str, at: datetime | None = None) -> None:
        try:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            self._sender.send(_SIGNALS, messages, at=at)
        except FAILURES as error:
            raise SignalNotSentError(
                f"could not send the signal {saying} ({type(error).__name__}): "
                "nothing is lost, the next poll finds the same"
            ) from error


class NoSignals(Closing):
    """Signals of an installation without a bus."""

    def connect(self, within: float) -> None:
        """Do nothing: there is nothing to connect to."""

    def send(self, gate: str, epoch: int, at: datetime | None = None) -> None:  # noqa: ARG002 - as its like
        """Raise SignalNotSentError: no bus could carry the signal."""
        raise _no_bus(f"gate {gate!r} is open at epoch {epoch}: the next poll finds it")

    def send_on(self, hints: Sequence[Hint], epoch: int) -> None:  # noqa: ARG002 - as its like
        """Raise SignalNotSentError: no bus could carry the signal."""
        raise _no_bus(f"more is to be released behind gate {hints[0].gate!r}: the tick does it")

    def send_job(self, job: str) -> None:
        """Raise SignalNotSentError: no bus could carry the signal."""
        raise _no_bus(f"there is more to do for job {job!r}: the tick does it")

    def close(self) -> None:
        """Do nothing: nothing was opened."""


def _no_bus(news: str) -> SignalNotSentError:
    return SignalNotSentError(f"there is no bus to signal that {news}")


class SendPermits(Protocol):
    """Sends permits, or logs why it could not."""

    def __call__(self, permits: Sequence[Permit], seconds: float = 0.0, /) -> int:
        """Send them, to arrive after so many seconds, and return how many were sent. A failure of the bus is not raised."""
        ...


class BusPermits(_Kept):
    """SendPermits over Service Bus, on a connection that is kept. Close it when done."""

    def __init__(self, connections: Connections, clock: Clock | None = None) -> None:
        self._sender, self._clock = BusSender(connections), clock or SystemClock()

    def __call__(self, permits: Sequence[Permit], seconds: float = 0.0, /) -> int:
        """Send them, to arrive after so many seconds. If the bus is down, the tick sends permits later."""
        at = self._clock.now() + timedelta(seconds=seconds) if seconds else None
        sent = 0
        for begin in range(0, len(permits), MOST_AT_ONCE):
            batch = permits[begin : begin + MOST_AT_ONCE]
            try:
                self._sender.send(_PERMITS, [_permit_message(permit) for permit in batch], at=at)
            except FAILURES as error:
                tell(events.PERMITS_UNSENT, permits=len(permits) - sent, error=describe_error(error))
                break
            sent += len(batch)
        return sent


class _OnQueue(Closing):
    """Sends on the storage queue `wake`, whose trigger starts the work."""

    def __init__(self, queue: "QueueClient") -> None:
        self._queue = queue

    def _send(self, message: Permit | FeedCall, seconds: float = 0.0) -> None:
        """Send a message, which comes after so many seconds. Raises AzureError."""
        body, life = encode_permit(message).decode(), int(SIGNAL_LIFE.total_seconds())
        self._queue.send_message(body, visibility_timeout=ceil(seconds), time_to_live=life)

    def close(self) -> None:
        """Do nothing: the connections hold its client."""


class QueuePermits(_OnQueue):
    """SendPermits over a storage queue."""

    def __call__(self, permits: Sequence[Permit], seconds: float = 0.0, /) -> int:
        """Send each by a request, to arrive after so many seconds. If storage does not answer, the tick sends them later."""
        for sent, permit in enumerate(permits):
            try:
                self._send(permit, seconds)
            except AzureError as error:
                tell(events.PERMITS_UNSENT, permits=len(permits) - sent, error=describe_error(error))
                return sent
        return len(permits)


class CallFeeder(Protocol):
    """Has a process look for jobs that wait for their turn, or logs why it could not."""

    def __call__(self, seconds: float = 0.0, /) -> None:
        """Call a feeder, after so many seconds. A failure is not raised: the tick calls one."""
        ...


class BusFeedCalls(_Kept):
    """CallFeeder over Service Bus, on a connection that is kept. Close it when done."""

    def __init__(self, connections: Connections, clock: Clock) -> None:
        self._sender, self._clock = BusSender(connections), clock

    def __call__(self, seconds: float = 0.0, /) -> None:
        """Call a feeder, after so many seconds. If the bus is down, the tick calls one later."""
        at = self._clock.now() + timedelta(seconds=seconds) if seconds else None
        try:
            self._sender.send(_PERMITS, [BusMessage(body=encode_permit(FeedCall()), life=SIGNAL_LIFE)], at=at)
        except FAILURES as error:
            tell(events.FEEDER_UNCALLED, error=describe_error(error))


class QueueFeedCalls(_OnQueue):
    """CallFeeder over a storage queue."""

    def __call__(self, seconds: float = 0.0, /) -> None:
        """Call a feeder, after so many seconds. If storage does not answer, the tick calls one later."""
        try:
            self._send(FeedCall(), seconds)
        except AzureError as error:
            tell(events.FEEDER_UNCALLED, error=describe_error(error))


class HttpHints(Closing):
    """Says over HTTP that something was dropped. A bus that fails costs one wait, and none for a while. Close it when done."""

    def __init__(self, connections: Connections, queue: str = "", now: Callable[[], float] = monotonic) -> None:
        """Take the queue that a hint names if its sender gives no other. Empty: all queues of submissions."""
        self._connections, self._queue, self._now = connections, queue, now
        #: Made at the first hint: an app may be built that sends none.
        self._post: BusPost | None = None
        self._lock, self._has_failed, self._quiet_until = Lock(), False, 0.0

    def __call__(self, queue: str = "", /) -> bool:
        """Send a hint, unless the last one failed a moment ago. It logs the first failure of an outage."""
        if self._has_failed and self._now() < self._quiet_until:
            return False
        # Beside the place to look, nothing is in it: what is not there cannot be believed. The queue sets its life.
        named = {HINTED_QUEUE: queue or self._queue} if queue or self._queue else {}
        try:
            post = self._open()
            self._connections.meter.count_bus(BusOperation.SEND, HINTS)
            post(named)
        except Exception as error:  # noqa: BLE001 - whatever the bus or the login raise, nothing depends on a hint
            self._note_failure(error)
            return False
        self._has_failed = False
        return True

    def close(self) -> None:
        """Close the connection."""
        if self._post is not None:
            self._post.close()

    def _open(self) -> BusPost:
        with self._lock:
            if self._post is None:
                self._post = self._connections.bus_post(HINTS)
            return self._post

    def _note_failure(self, error: Exception) -> None:
        with self._lock:
            is_first, self._has_failed, self._quiet_until = not self._has_failed, True, self._now() + QUIET_SECONDS
        if is_first:
            tell(events.HINT_UNSENT, error=describe_error(error))


class GatheredHints(Closing):
    """Hints of a publisher, of which each is an execution in the app. One hint behind many drops says the same.

    A hint that waits is sent after all drops that it stands for. Several threads may send. Close it when done.
    """

    def __init__(self, hints: HttpHints, now: Callable[[], float] = monotonic) -> None:
        self._hints, self._now, self._lock = hints, now, Lock()
        #: When the last ones went, and whether the last one was sent.
        self._gone, self._is_sent = deque[float](maxlen=AT_ONCE), True
        #: Sends the hint that waits.
        self._waiting: Timer | None = None

    def __call__(self) -> bool:
        """Send a hint now, or have the next one stand for it. False: it was not sent, or the last one was not."""
        with self._lock:
            if self._waiting is not None:
                return self._is_sent
            if len(self._gone) == AT_ONCE and self._now() - self._gone[0] < 1.0:
                # The interpreter waits for it at its end.
                self._waiting = Timer(GATHERED_FOR, self._send_waiting)
                self._waiting.start()
                return self._is_sent
            self._gone.append(self._now())
        return self._send()

    def _send_waiting(self) -> None:
        with self._lock:
            if self._waiting is None:
                return
            # From here on a drop has a hint of its own.
            self._waiting = None
            self._gone.append(self._now())
        self._send()

    def _send(self) -> bool:
        self._is_sent = self._hints()
        return self._is_sent

    def close(self) -> None:
        """Send the hint that waits, and close the connection."""
        if (waiting := self._waiting) is not None:
            waiting.cancel()
            self._send_waiting()
        self._hints.close()


def release_message(gate: str, epoch: int) -> BusMessage:
    """Return the message that has all listeners check a gate."""
    return _message({"gate": gate, "epoch": epoch}, subject=gate)


def place_message(hint: Hint, epoch: int) -> BusMessage:
    """Return the message that has an invocation release from a place on. Without a subject it wakes no waiter."""
    since = {"since": hint.since} if hint.since else {}
    number = {} if hint.slice is None else {"slice": hint.slice}
    return _message({"gate": hint.gate, "epoch": epoch, **since, **number})


def job_message(job: str) -> BusMessage:
    """Return the message that has an invocation check a job. It has no subject, so it wakes no waiter of a gate."""
    return _message({"job": job})


def _message(fields: dict[str, Any], subject: str | None = None) -> BusMessage:
    said = {"kind": RELEASE, **fields}
    # Subscriptions filter by `kind`. The body is for languages that cannot read properties.
    return BusMessage(
        body=json.dumps({"sluice": {"v": 1, **said}}).encode(), properties=said, subject=subject, life=SIGNAL_LIFE
    )


def _permit_message(permit: Permit) -> BusMessage:
    return BusMessage(body=encode_permit(permit), life=SIGNAL_LIFE)
