"""Work queues as a listener sees them: receive messages, hold each by its own receipt, and read the depth.

- `DepthSample`: the depth of all queues, read once per interval for all tasks. A task makes no request of its own to
  find out how large its receive should be.
- `Partitions`: the order in which tasks receive from several queues: in rotation, so that none starves.

Renewals of held messages and leases, each in good time before its end, by one thread per listener.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from threading import Condition, Lock, Thread
from types import TracebackType
from typing import Final, Protocol, Self

from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.queue import QueueClient, QueueMessage

from shared.azure import expecting_an_answer, looking
from shared.clock import Clock
from shared.errors import NoSlotError, PutOffError, StorageUnavailableError
from shared.messages import Delivery
from shared.telemetry import describe_error, events, tell


class DepthSample:
    """The last result of `read`, which is called again once the result is older than `every` seconds."""

    def __init__(self, read: Callable[[], int], clock: Clock, every: float, *, first: int | None = None) -> None:
        self._read, self._clock, self._every = read, clock, every
        self._depth, self._lock = first or 0, Lock()
        self._at = None if first is None else clock.monotonic()

    @property
    def last(self) -> int:
        """The last result, however old. Makes no request."""
        return self._depth

    def depth(self) -> int:
        """Return the depth. While one thread reads it, the others use the last result."""
        if self._is_old() and self._lock.acquire(blocking=self._at is None):
            try:
                if self._is_old():
                    # Set even if the read fails: when storage does not answer, not every task should ask it in turn.
                    self._at = self._clock.monotonic()
                    with suppress(StorageUnavailableError):
                        self._depth = self._read()
            finally:
                self._lock.release()
        return self._depth

    def note_empty(self) -> None:
        """Note that a task found the queues empty. This saves a request, but does not delay the next read."""
        self._depth = 0

    def _is_old(self) -> bool:
        return self._at is None or self._clock.monotonic() - self._at >= self._every


class Partitions:
    """The names of the queues from which all tasks of a listener receive in turn.

    Where tasks end, none receives from a queue again after its first empty receive. So the end costs one empty receive
    per queue, instead of one per queue and task.
    """

    def __init__(self, names: Sequence[str], *, first: int = 0) -> None:
        if not names:
            raise ValueError("a listener needs at least one queue, got none")
        begin = first % len(names)
        self._names = [*names[begin:], *names[:begin]]
        self._lock = Lock()

    def next(self) -> str | None:
        """Return the queue whose turn it is, or None when every queue has ended."""
        with self._lock:
            if not self._names:
                return None
            name = self._names.pop(0)
            self._names.append(name)
            return name

    def note_empty(self, name: str, in_a_row: int, *, ends: bool) -> bool:
        """Note an empty receive. Return True when no queue is left to try before a rest."""
        with self._lock:
            if ends and name in self._names:
                self._names.remove(name)
            return not self._names if ends else in_a_row >= len(self._names)


#: Seconds after which a failed message is redelivered, as by `visibilityTimeout` in host.json.
AGAIN_AFTER: Final = 30
#: The same for the first deliveries that failed because storage did not answer: mostly one connection broke.
SOON: Final = (1, 2, 4)
#: As `maxDequeueCount` in host.json: the delivery at which a message goes to the poison queue. The host's count too.
MOST_DELIVERIES: Final = 100
#: The most messages of one receive, or of one peek.
MOST_MESSAGES: Final = 32


def redeliver_after(error: Exception, count: int) -> int:
    """Return the seconds after which a message is redelivered whose delivery of this number failed so."""
    if isinstance(error, PutOffError | NoSlotError) and error.seconds is not None:
        return error.seconds
    return SOON[count - 1] if isinstance(error, StorageUnavailableError) and count <= len(SOON) else AGAIN_AFTER


#: Status codes of a message that is gone, or that another process has received since.
_LOST: Final = frozenset({400, 404})


class ReceivedMessage(Protocol):
    """A received message, hidden from others for a while."""

    @property
    def delivery(self) -> Delivery:
        """The message, for the handler."""
        ...

    @property
    def is_lost(self) -> bool:
        """True once another process may have received it."""
        ...

    @property
    def due(self) -> float:
        """The moment of the next renewal, in the clock's monotonic seconds."""
        ...

    def renew(self) -> None:
        """Hide it for its full time again, counted from now."""
        ...

    def delete(self) -> None:
        """Acknowledge it: delete it from the queue."""
        ...

    def show_in(self, seconds: int) -> None:
        """Give it back: redeliver it after so many seconds."""
        ...


class WorkSource(Protocol):
    """A work queue."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def receive(self, most: int) -> Sequence[ReceivedMessage]:
        """Receive up to so many messages. Makes one request."""
        ...

    def depth(self) -> int:
        """Return about how many messages it has, including the hidden ones. Makes one request."""
        ...

    def peek(self) -> int:
        """Return how many messages could be received now, at most 32. Makes one request, which changes nothing."""
        ...


class WorkQueue:
    """A work queue in storage. Its received messages stay hidden for `visibility` seconds after the last renewal."""

    def __init__(self, queue: QueueClient, clock: Clock, visibility: int) -> None:
        self._queue, self._clock, self._visibility = queue, clock, visibility

    @property
    def name(self) -> str:
        """Its name."""
        return str(self._queue.queue_name)

    def receive(self, most: int) -> Sequence[ReceivedMessage]:
        """Receive up to so many messages. Makes one request."""
        # Read before the request: storage hides the messages from some moment after it.
        requested_at = self._clock.monotonic()
        with expecting_an_answer(f"receive from queue {self.name!r}"):
            pages = self._queue.receive_messages(messages_per_page=most, visibility_timeout=self._visibility).by_page()
            # Only the first page: without messages in it, the pager would request another one.
            messages = list(next(pages, ()))
        return [self._hold(self._delivery(one), one.pop_receipt, requested_at) for one in messages]

    def take_over(self, delivery: Delivery) -> "HeldMessage":
        """Hold a message that the host received, in its stead. Makes one request, after which its receipt is used up."""
        requested_at = self._clock.monotonic()
        with expecting_an_answer(f"take over message {delivery.message_id!r} of queue {self.name!r}"):
            taken = self._queue.update_message(
                delivery.message_id, delivery.receipt, visibility_timeout=self._visibility
            )
        return self._hold(delivery, taken.pop_receipt, requested_at)

    def _delivery(self, one: QueueMessage) -> Delivery:
        return Delivery(queue=self.name, message_id=one.id, body=one.content.encode(), count=one.dequeue_count or 1)

    def _hold(self, delivery: Delivery, receipt: object, since: float) -> "HeldMessage":
        return HeldMessage(self._queue, delivery, str(receipt), self._clock, length=self._visibility, since=since)

    def depth(self) -> int:
        """Return about how many messages it has, including the hidden ones. Makes one request."""
        with expecting_an_answer(f"read the depth of queue {self.name!r}"):
            return self._queue.get_queue_properties().approximate_message_count or 0

    def peek(self) -> int:
        """Return how many messages could be received now, at most 32. Makes one request, which changes nothing."""
        with expecting_an_answer(f"peek into queue {self.name!r}"), looking() as look:
            found = len(self._queue.peek_messages(max_messages=MOST_MESSAGES))
            look.has_found = found > 0
        return found


class HeldMessage:
    """A message of a storage queue, held by the receipt of its last renewal."""

    def __init__(  # noqa: PLR0913 - what it is, by what it is held, and since when
        self, queue: QueueClient, delivery: Delivery, receipt: str, clock: Clock, *, length: int, since: float
    ) -> None:
        self._queue, self._clock, self._length = queue, clock, length
        self.delivery, self._id, self._receipt = delivery, delivery.message_id, receipt
        self._until, self.due = since + length, since + length / 2
        # Renewing changes the receipt that deleting and giving back need: one of them at a time.
        self._lock, self._is_settled = Lock(), False

    @property
    def is_lost(self) -> bool:
        """True once another process may have received it."""
        return self._clock.monotonic() >= self._until

    def renew(self) -> None:
        """Hide it for its full time again. Retry a failure after half of the time left. A refusal is final."""
        with self._lock:
            if self._is_settled:
                return
            now = self._clock.monotonic()
            try:
                self._receipt = self._hide(self._length)
            except AzureError as error:
                self._until = now if _is_lost(error) else self._until
                self.due = inf if _is_lost(error) else now + max(1.0, (self._until - now) / 2)
                self._tell("not renewed", error)
            else:
                self._until, self.due = now + self._length, now + self._length / 2

    def delete(self) -> None:
        """Acknowledge it: delete it. If that fails it is redelivered, and its handler finds its result."""
        with self._lock:
            self._is_settled = True
            try:
                self._queue.delete_message(self._id, self._receipt)
            except ResourceNotFoundError:
                # Already deleted: by an attempt of this request whose reply was lost, or by its next receiver.
                return
            except AzureError as error:
                self._tell("not deleted", error)

    def show_in(self, seconds: int) -> None:
        """Give it back: redeliver it after so many seconds. If that fails, it is redelivered when its time is over."""
        with self._lock:
            self._is_settled = True
            try:
                self._hide(seconds)
            except AzureError as error:
                self._tell("not given back", error)

    def _hide(self, seconds: int) -> str:
        """Hide the message for so many seconds from now. Return its new receipt."""
        # Without a body: it would be sent and stored again.
        return str(self._queue.update_message(self._id, self._receipt, visibility_timeout=seconds).pop_receipt)

    def _tell(self, failure: str, error: AzureError) -> None:
        queue, error_text = self.delivery.queue, describe_error(error)
        tell(events.MESSAGE_UNSETTLED, queue=queue, message_id=self._id, what=failure, error=error_text)


def _is_lost(error: AzureError) -> bool:
    return isinstance(error, HttpResponseError) and error.status_code in _LOST


#: Seconds between two rounds at least: a renewal that is due again at once must not keep a processor busy.
SHORTEST: Final = 0.05


class Renewable(Protocol):
    """A message or lease that is held for a time."""

    @property
    def due(self) -> float:
        """The moment of the next renewal, in the clock's monotonic seconds."""
        ...

    def renew(self) -> None:
        """Hold it for its full time again. Never raises."""
        ...


class Renewals:
    """Everything that is kept renewed. While entered, a thread of its own, begun by the first, calls `renew_due` in time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: set[Renewable] = set()
        self._changed, self._is_entered, self._is_ended = Condition(), False, False
        self._thread: Thread | None = None

    @contextmanager
    def keep_leased(self, held: Renewable) -> Iterator[None]:
        """Renew it in time while inside."""
        self.keep(held)
        try:
            yield
        finally:
            self.drop(held)

    def keep(self, held: Renewable) -> None:
        """Start renewing it."""
        with self._changed:
            self._kept.add(held)
            if self._is_entered and self._thread is None:
                self._thread = Thread(target=self._run, name="renewals", daemon=True)
                self._thread.start()
            self._changed.notify()

    def drop(self, held: Renewable) -> None:
        """Stop renewing it. A renewal under way may still end after this."""
        with self._changed:
            self._kept.discard(held)

    def renew_due(self) -> None:
        """Renew everything that is due."""
        now = self._clock.monotonic()
        with self._changed:
            due = [held for held in self._kept if held.due <= now]
        for held in due:
            held.renew()

    def _run(self) -> None:
        while not self._is_ended:
            self.renew_due()
            self._rest()

    def _rest(self) -> None:
        with self._changed:
            if not self._is_ended:
                due = min((held.due for held in self._kept), default=inf)
                wait = max(SHORTEST, due - self._clock.monotonic())
                self._changed.wait(None if wait == inf else wait)

    def __enter__(self) -> Self:
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_entered, self._is_ended = False, True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
