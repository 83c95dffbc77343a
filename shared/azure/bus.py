"""Sends to the queues and topics of the bus, on kept connections: opening one takes longer than sending."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from queue import LifoQueue
from threading import Lock
from typing import Final, Literal, NamedTuple, get_args

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError

from shared.azure.connections import Connections
from shared.azure.meter import BusOperation, Cause, because
from shared.closing import Closing

#: The library's errors if it could not send. It raises ValueError for a sender that it has closed by itself.
FAILURES: Final = (ServiceBusError, OSError, ValueError)
#: Once on the open connection, which may have been idle for too long, and once on a new one.
_ATTEMPTS: Final = 2
DestinationKind = Literal["queue", "bus", "topic", "call"]
_KINDS: Final = frozenset(get_args(DestinationKind))


class Destination(NamedTuple):
    """The place that a message goes to: a storage queue, a queue or a topic of the bus, or a call in this process.

    As text: `work-00`, `bus:results`, `topic:job-events`, `call:dispatch`.
    """

    kind: DestinationKind
    name: str

    def __str__(self) -> str:
        """Return the text. For a storage queue it is the name alone."""
        return self.name if self.kind == "queue" else f"{self.kind}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> "Destination":
        """Read the text, or raise ValueError for an unknown kind."""
        kind, found, name = text.partition(":")
        if not found:
            return cls("queue", text)
        if kind not in _KINDS or kind == "queue" or not name:
            raise ValueError(f"{text!r} is not a destination: write a queue's name, or one of bus:, topic:, call:")
        return cls(kind, name)  # type: ignore[arg-type]  # one of the literals, as just checked


class BusSender(Closing):
    """A pool of at most `most` senders per destination. Several threads may send, each by a sender of its own.

    Close it when done. A message after that opens a connection again. With `attempts=1`, a send that fails on a new
    connection is not repeated here but by other means, such as the tick.
    """

    def __init__(self, connections: Connections, *, most: int = 1, attempts: int = _ATTEMPTS) -> None:
        self._connections, self._most, self._attempts = connections, most, attempts
        # The last used sender is taken first, so there are never more connections than threads that send at once.
        self._idle: dict[Destination, LifoQueue[_KeptSender]] = {}
        self._lock = Lock()

    def send(self, to: Destination, messages: Sequence[ServiceBusMessage], *, at: datetime | None = None) -> None:
        """Send the messages in one transfer, all or nothing. The errors are FAILURES.

        The bus holds the messages back until `at`.
        """
        if at is not None:
            for message in messages:
                message.scheduled_enqueue_time_utc = at
        with self._take(to) as sender:
            sender.send(messages)

    def connect(self, to: Destination) -> None:
        """Open a connection ahead of the first message. The errors are FAILURES.

        The library takes half a second for it, in pauses between the replies that it waits for.
        """
        with self._take(to) as sender:
            sender.connect()

    def close(self) -> None:
        """Close the connections, each after its current transfer."""
        with self._lock:
            for idle in self._idle.values():
                for sender in [idle.get() for _ in range(self._most)]:
                    sender.close()
                    idle.put(sender)

    @contextmanager
    def _take(self, to: Destination) -> Iterator["_KeptSender"]:
        with self._lock:
            if to not in self._idle:
                self._idle[to] = self._make_pool(to)
        sender = self._idle[to].get()
        try:
            yield sender
        finally:
            self._idle[to].put(sender)

    def _make_pool(self, to: Destination) -> LifoQueue["_KeptSender"]:
        if to.kind not in {"bus", "topic"}:
            raise TypeError(f"{to.kind} {to.name!r} is not on the bus: send to bus:NAME or topic:NAME")
        pool: LifoQueue[_KeptSender] = LifoQueue()
        for _ in range(self._most):
            pool.put(_KeptSender(self._connections, to, self._attempts))
        return pool


class _KeptSender:
    """One connection to one destination, for one thread at a time. Its first message opens it."""

    def __init__(self, connections: Connections, to: Destination, attempts: int) -> None:
        self._connections, self._to, self._attempts = connections, to, attempts
        self._open: tuple[ServiceBusClient, ServiceBusSender] | None = None

    def send(self, messages: Sequence[ServiceBusMessage]) -> None:
        """Send in one transfer. If the open connection is broken, send again on a new one."""
        attempts = max(self._attempts, 1 if self._open is None else _ATTEMPTS)
        for left in reversed(range(attempts)):
            try:
                self._send_once(messages, is_again=left < attempts - 1)
            except MessageSizeExceededError:
                # The bus refuses it however often it is sent, and the connection is still good.
                raise
            except FAILURES as error:
                self._connections.pushback.on_bus_error(error)
                self.close()
                if not left:
                    raise
            else:
                return

    def connect(self) -> None:
        """Open the connection if it is not open."""
        if self._open is None:
            try:
                self._open_both()[1].__enter__()
            except FAILURES:
                self.close()
                raise

    def close(self) -> None:
        """Close the connection. The next message opens another."""
        opened, self._open = self._open, None
        if opened is not None:
            opened[1].close()
            opened[0].close()

    def _send_once(self, messages: Sequence[ServiceBusMessage], *, is_again: bool) -> None:
        sender = self._open_both()[1]
        with because(Cause.RETRY) if is_again else nullcontext():
            self._connections.meter.count_bus(BusOperation.SEND, self._to.name, len(messages))
        # A list travels as a batch with its own envelope, which a single message does not need.
        sender.send_messages(list(messages) if len(messages) > 1 else messages[0])

    def _open_both(self) -> tuple[ServiceBusClient, ServiceBusSender]:
        if self._open is None:
            client = self._connections.bus_client()
            self._open = client, self._open_sender(client)
        return self._open

    def _open_sender(self, client: ServiceBusClient) -> ServiceBusSender:
        name = self._to.name
        return client.get_topic_sender(name) if self._to.kind == "topic" else client.get_queue_sender(name)
