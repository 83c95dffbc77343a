"""One work queue as a listener sees it: receive, ask its depth, and hold what was received by its own receipt.

The depth of the queues, read once an interval for all tasks: no task pays for knowing whether to save a request.

Which of several work queues a task asks next: all in rotation, so that none starves.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from threading import Lock
from typing import Final, Protocol

from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.queue import QueueClient, QueueMessage

from shared.azure import expecting_an_answer, looking
from shared.clock import Clock
from shared.errors import StorageUnavailableError
from shared.messages import Delivery
from shared.telemetry import describe_error, events, tell


class DepthSample:
    """What `read` said last; it is called when somebody asks and the last answer is older than `every` seconds."""

    def __init__(self, read: Callable[[], int], clock: Clock, every: float, *, first: int | None = None) -> None:
        self._read, self._clock, self._every = read, clock, every
        self._depth, self._lock = first or 0, Lock()
        self._at = None if first is None else clock.monotonic()

    @property
    def last(self) -> int:
        """The last answer, however old; free."""
        return self._depth

    def depth(self) -> int:
        """Return the depth; while one thread asks, the others go by the last answer."""
        if self._is_old() and self._lock.acquire(blocking=self._at is None):
            try:
                if self._is_old():
                    # Whatever comes of it: storage that does not answer is not to be asked by every task in turn.
                    self._at = self._clock.monotonic()
                    with suppress(StorageUnavailableError):
                        self._depth = self._read()
            finally:
                self._lock.release()
        return self._depth

    def note_empty(self) -> None:
        """Take it from a task that found nothing, which is free; it says nothing about when to read next."""
        self._depth = 0

    def _is_old(self) -> bool:
        return self._at is None or self._clock.monotonic() - self._at >= self._every


class Partitions:
    """The queues that tasks share out among themselves, by name.

    With `ends`, a queue is asked no more after its first empty receive, by any of the tasks: one empty receive a queue
    and not one for each task.
    """

    def __init__(self, names: Sequence[str], *, first: int = 0, ends: bool = False) -> None:
        if not names:
            raise ValueError("no queue is named: a listener needs at least one")
        begin = first % len(names)
        self._names, self._ends = [*names[begin:], *names[:begin]], ends
        self._lock = Lock()

    def next(self) -> str | None:
        """Return the queue whose turn it is; None when every one has ended."""
        with self._lock:
            if not self._names:
                return None
            name = self._names.pop(0)
            self._names.append(name)
            return name

    def note_empty(self, name: str, in_a_row: int) -> bool:
        """Note that a receive came back empty, and say whether there is nothing left to ask before a rest."""
        with self._lock:
            if self._ends and name in self._names:
                self._names.remove(name)
            return not self._names if self._ends else in_a_row >= len(self._names)


#: Answers that say: the message is gone, or was received by somebody else since.
_LOST: Final = frozenset({400, 404})


class ReceivedMessage(Protocol):
    """A received message, hidden from others for a while."""

    @property
    def delivery(self) -> Delivery:
        """What it says, for the handler."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether somebody else may have it by now."""
        ...

    @property
    def due(self) -> float:
        """When it must be renewed, in the clock's monotonic seconds."""
        ...

    def renew(self) -> None:
        """Hide it for as long again, counted from now."""
        ...

    def delete(self) -> None:
        """Be done with it."""
        ...

    def show_in(self, seconds: int) -> None:
        """Let others have it after so many seconds."""
        ...


class WorkSource(Protocol):
    """A work queue."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def receive(self, most: int) -> Sequence[ReceivedMessage]:
        """Return up to so many messages; one request."""
        ...

    def depth(self) -> int:
        """Return about how many messages it has, the hidden ones included; one request."""
        ...

    def waits(self) -> bool:
        """Whether a message could be received now; one request that changes nothing."""
        ...


class WorkQueue:
    """A work queue in storage, whose messages stay hidden for `visibility` seconds unless they are renewed."""

    def __init__(self, queue: QueueClient, clock: Clock, visibility: int) -> None:
        self._queue, self._clock, self._visibility = queue, clock, visibility

    @property
    def name(self) -> str:
        """What it is called."""
        return str(self._queue.queue_name)

    def receive(self, most: int) -> Sequence[ReceivedMessage]:
        """Return up to so many messages; one request."""
        # Counted from before the request: storage hides them from some moment after that.
        asked = self._clock.monotonic()
        with expecting_an_answer(f"receive from queue {self.name!r}"):
            pages = self._queue.receive_messages(messages_per_page=most, visibility_timeout=self._visibility).by_page()
            # The pager would go on to ask for another page when the first is empty of messages.
            messages = list(next(pages, ()))
        return [HeldMessage(self._queue, message, self._clock, self._visibility, asked) for message in messages]

    def depth(self) -> int:
        """Return about how many messages it has, the hidden ones included; one request."""
        with expecting_an_answer(f"read the depth of queue {self.name!r}"):
            return self._queue.get_queue_properties().approximate_message_count or 0

    def waits(self) -> bool:
        """Whether a message could be received now; one request that changes nothing."""
        with expecting_an_answer(f"peek into queue {self.name!r}"), looking() as look:
            look.has_found = bool(self._queue.peek_messages())
        return look.has_found


class HeldMessage:
    """A message of a storage queue, held by the receipt of its last renewal."""

    def __init__(self, queue: QueueClient, message: QueueMessage, clock: Clock, length: int, since: float) -> None:
        self._queue, self._clock, self._length = queue, clock, length
        self._id, self._receipt = message.id, message.pop_receipt
        self._until, self.due = since + length, since + length / 2
        self.delivery = Delivery(
            queue=str(queue.queue_name),
            message_id=message.id,
            body=message.content.encode(),
            count=message.dequeue_count or 1,
        )
        # A renewal under way changes the receipt that the end of the work needs.
        self._lock, self._is_settled = Lock(), False

    @property
    def is_lost(self) -> bool:
        """Whether somebody else may have it by now."""
        return self._clock.monotonic() >= self._until

    def renew(self) -> None:
        """Hide it for as long again; a failure is tried again at half of the time that is left, a refusal is final."""
        with self._lock:
            if self._is_settled:
                return
            now = self._clock.monotonic()
            try:
                self._receipt = self._describe_change(self._length)
            except AzureError as error:
                self._until = now if _is_lost(error) else self._until
                self.due = inf if _is_lost(error) else now + max(1.0, (self._until - now) / 2)
                self._tell("not renewed", error)
            else:
                self._until, self.due = now + self._length, now + self._length / 2

    def delete(self) -> None:
        """Be done with it; should that fail it comes back, and its result is found then."""
        with self._lock:
            self._is_settled = True
            try:
                self._queue.delete_message(self._id, self._receipt)
            except ResourceNotFoundError:
                # Gone: by an attempt of this request whose reply was lost, or by whoever had it since.
                return
            except AzureError as error:
                self._tell("not deleted", error)

    def show_in(self, seconds: int) -> None:
        """Let others have it after so many seconds; should that fail, they have it when its time is over."""
        with self._lock:
            self._is_settled = True
            try:
                self._describe_change(seconds)
            except AzureError as error:
                self._tell("not given back", error)

    def _describe_change(self, seconds: int) -> str:
        # Without a body, which would be sent and stored anew.
        return str(self._queue.update_message(self._id, self._receipt, visibility_timeout=seconds).pop_receipt)

    def _tell(self, what: str, error: AzureError) -> None:
        queue, name = self.delivery.queue, self._id
        tell(events.MESSAGE_UNSETTLED, queue=queue, message_id=name, what=what, error=describe_error(error))


def _is_lost(error: AzureError) -> bool:
    return isinstance(error, HttpResponseError) and error.status_code in _LOST
