"""Messages that are stored with the state that caused them. Each is sent at least once, in order per owner.

The order of the writes: a pointer, the state together with its messages, the sends, then the pointer goes. After a crash
anywhere, the tick follows the pointer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Protocol

from shared.azure import FAILURES, BusMessage, BusSender, Connections, Destination
from shared.clock import Clock, Closing
from shared.errors import SignalNotSentError
from shared.grammar import bus_name
from shared.messages import Completed, decode, encode
from shared.pending import Pending, Pointer
from shared.telemetry import events, tell

#: The kind of the event, by which subscriptions of the topic filter.
KIND: Final = "completed"
#: Longer than any writer needs between its pointer and its message.
GRACE: Final = timedelta(minutes=3)
#: The topic that announces the ends of jobs.
JOB_EVENTS: Final = Destination("topic", "job-events")


def _no_properties() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One stored message. Names sort in the order in which an owner's messages are sent."""

    name: str
    destination: Destination
    body: bytes
    properties: Mapping[str, Any] = field(default_factory=_no_properties)
    session: str | None = None
    #: The time before which it is not received.
    due: datetime | None = None


class OutboxStore(Protocol):
    """The stored messages of each owner."""

    def unsent(self, owner: str) -> Sequence[OutgoingMessage]:
        """Return the messages that may not have been sent, in order."""
        ...

    def forget(self, owner: str, sent: Sequence[OutgoingMessage]) -> None:
        """Record that messages were sent. Safe to repeat."""
        ...


class Outbox:
    """Sends the messages of one store. `send` sends one, or raises SignalNotSentError."""

    def __init__(  # noqa: PLR0913 - the store and its ways
        self,
        store: OutboxStore,
        pending: Pending,
        send: Callable[[OutgoingMessage], object],
        clock: Clock,
        *,
        kind: str,
        awaits: Callable[[str], bool],
        grace: timedelta = GRACE,
    ) -> None:
        """Take the kind of its pointers. `awaits`: whether an owner's writer may be between pointer and state."""
        self._store, self._pending, self._send, self._clock = store, pending, send, clock
        self._kind, self._awaits, self._grace = kind, awaits, grace

    def point(self, owner: str) -> Pointer:
        """Leave a pointer, before the state with the messages: the writer may crash right after that state."""
        return self._pending.add(Pointer(self._kind, self._clock.now() + self._grace, owner))

    def flush(self, owner: str, pointer: Pointer | None = None, known: Sequence[OutgoingMessage] | None = None) -> int:
        """Send the unsent messages in order, then remove the pointer to them. Return how many were sent.

        `known`: all of them, where their writer knows that. Else they are read.
        """
        unsent = self._store.unsent(owner) if known is None else known
        for message in unsent:
            self._send(message)
            # Only after it was sent: sending it twice is harmless, losing it is not.
            self._store.forget(owner, [message])
        if pointer is not None:
            self._pending.remove(pointer)
        return len(unsent)

    def follow(self, pointer: Pointer) -> None:
        """Follow a due pointer: its writer may have crashed before it sent the messages."""
        late = self._clock.now() - pointer.due
        tell(events.OUTBOX_LATE, job=pointer.id, late_seconds=round(late.total_seconds()))
        if self._awaits(pointer.id):
            # Its writer may be delayed between pointer and state. Removed now, the pointer would be missing later.
            self._pending.add(replace(pointer, due=self._clock.now() + self._grace))
        self.flush(pointer.id, pointer)


class BusAnnouncements(Closing):
    """Sends the ends of jobs to their topic, on a connection that is kept. Close it when done."""

    def __init__(self, connections: Connections) -> None:
        self._sender = BusSender(connections, attempts=1)

    def __call__(self, message: OutgoingMessage) -> None:
        """Send the event, or raise SignalNotSentError."""
        event = decode(message.body)
        if isinstance(event, Completed):
            self._announce(event, message.destination)

    def _announce(self, event: Completed, topic: Destination) -> None:
        message = BusMessage(
            body=encode(event),
            properties={"kind": KIND, "job": event.job, "state": event.state, "revision": event.revision},
            subject=bus_name(event.job),
            id=bus_name(f"{event.job}:{event.revision}"),
        )
        try:
            self._sender.send(topic, [message])
        except FAILURES as error:
            raise SignalNotSentError(
                f"could not send that job {event.job!r} is {event.state} at revision {event.revision} "
                f"({type(error).__name__}): the event stays in the outbox and the tick sends it"
            ) from error

    def close(self) -> None:
        """Close the connection."""
        self._sender.close()
