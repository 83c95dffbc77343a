"""One work queue as a listener sees it: receive, ask its depth, and hold what was received by its own receipt."""

from collections.abc import Sequence
from math import inf
from threading import Lock
from typing import Final, Protocol

from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.storage.queue import QueueClient, QueueMessage

from shared.answers import expecting_an_answer
from shared.clock import Clock
from shared.pipeline.messages import Delivery
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import told
from shared.usage.meter import looking

#: Answers that say: the message is gone, or was received by somebody else since.
_LOST: Final = frozenset({400, 404})


class Held(Protocol):
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


class Source(Protocol):
    """A work queue."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def receive(self, most: int) -> Sequence[Held]:
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

    def receive(self, most: int) -> Sequence[Held]:
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
                self._receipt = self._changed(self._length)
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
                self._changed(seconds)
            except AzureError as error:
                self._tell("not given back", error)

    def _changed(self, seconds: int) -> str:
        # Without a body, which would be sent and stored anew.
        return str(self._queue.update_message(self._id, self._receipt, visibility_timeout=seconds).pop_receipt)

    def _tell(self, what: str, error: AzureError) -> None:
        queue, name = self.delivery.queue, self._id
        tell(events.MESSAGE_UNSETTLED, queue=queue, message_id=name, what=what, error=told(error))


def _is_lost(error: AzureError) -> bool:
    return isinstance(error, HttpResponseError) and error.status_code in _LOST
