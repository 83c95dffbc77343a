"""The port of the bus: the one module that makes messages of its library, sends them and receives them.

Senders keep their connections: opening one takes longer than sending.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from queue import LifoQueue
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any, Final, Literal, NamedTuple, get_args
from weakref import ReferenceType, ref

from azure.core.exceptions import AzureError, ResourceNotFoundError, ServiceRequestError, ServiceResponseError
from azure.servicebus import (
    AutoLockRenewer,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSender,
)
from azure.servicebus.amqp import AmqpMessageBodyType
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

from shared.azure.connections import Connections
from shared.azure.meter import BusOperation, Cause, because
from shared.azure.transport import is_refused
from shared.clock import Closing

#: The library's errors if it could not send. It raises ValueError for a sender that it has closed by itself. No caller
#: tells them apart.
FAILURES: Final = (ServiceBusError, OSError, ValueError)
#: The bus detaches a link on which nothing was sent for ten minutes. The library needs seconds to notice it at the next
#: message. So a link that was idle for this many seconds is replaced by a new one, which is no billed operation.
IDLE_MOST: Final = 480.0
#: Seconds after which an idle link is taken for detached, because nothing could replace it: its process stood still.
_DETACHED_AFTER: Final = 590.0
#: Seconds between two checks of the idle links of a process.
_LOOK_EVERY: Final = 60.0
#: Once on the open connection, which may have been idle for too long, and once on a new one.
_ATTEMPTS: Final = 2
_NOT_FOUND: Final = 404
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BusMessage:
    """A message to send, or the parts that are read of one that was received."""

    body: bytes
    #: Subscriptions filter by them.
    properties: Mapping[str, Any] | None = None
    subject: str | None = None
    id: str | None = None
    session: str | None = None
    correlation: str | None = None
    #: How long the bus keeps it. None: as long as its entity says.
    life: timedelta | None = None
    content_type: str | None = "application/json"
    #: Of one that was received: the number of this delivery.
    deliveries: int = 1

    def prepare(self, at: datetime | None) -> ServiceBusMessage:
        """Return it as the library sends it."""
        properties: Any = None if self.properties is None else dict(self.properties)
        return ServiceBusMessage(
            self.body,
            application_properties=properties,
            subject=self.subject,
            message_id=self.id,
            session_id=self.session,
            correlation_id=self.correlation,
            time_to_live=self.life,
            content_type=self.content_type,
            scheduled_enqueue_time_utc=at,
        )


class BusSender(Closing):
    """A pool of at most `most` senders per destination. Several threads may send, each by a sender of its own.

    Close it when done. A message after that opens a connection again. With `attempts=1`, a send that fails on a new
    connection is not repeated here but by other means, such as the tick. An idle connection is replaced before the bus
    detaches its link.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        most: int = 1,
        attempts: int = _ATTEMPTS,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._connections, self._most, self._attempts, self._now = connections, most, attempts, now
        self._kept: list[_KeptSender] = []
        #: Ends the thread that renews.
        self._ending: Event | None = None
        # The last used sender is taken first, so there are never more connections than threads that send at once.
        self._idle: dict[Destination, LifoQueue[_KeptSender]] = {}
        self._lock = Lock()

    def send(self, to: Destination, messages: Sequence[BusMessage], *, at: datetime | None = None) -> None:
        """Send the messages in one transfer, all or nothing. The errors are FAILURES.

        The bus holds the messages back until `at`.
        """
        prepared = [message.prepare(at) for message in messages]
        with self._take(to) as sender:
            sender.send(prepared)

    def connect(self, to: Destination) -> None:
        """Open a connection ahead of the first message. The errors are FAILURES.

        The library takes half a second for it, in pauses between the replies that it waits for.
        """
        with self._take(to) as sender:
            sender.connect()

    def renew(self) -> None:
        """Replace each connection that was idle for too long. A failure is left to the next call, or to a message."""
        for sender in list(self._kept):
            sender.renew()

    def close(self) -> None:
        """Close the connections, each after its current transfer."""
        with self._lock:
            if self._ending is not None:
                self._ending.set()
                self._ending = None
            for idle in self._idle.values():
                for sender in [idle.get() for _ in range(self._most)]:
                    sender.close()
                    idle.put(sender)

    @contextmanager
    def _take(self, to: Destination) -> Iterator["_KeptSender"]:
        with self._lock:
            if to not in self._idle:
                self._idle[to] = self._make_pool(to)
            if self._ending is None:
                self._ending = Event()
                Thread(target=_renew_until, args=(self._ending, ref(self)), name="bus-links", daemon=True).start()
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
            sender = _KeptSender(self._connections, to, self._attempts, self._now)
            self._kept.append(sender)
            pool.put(sender)
        return pool


def _renew_until(ending: Event, reference: "ReferenceType[BusSender]") -> None:
    """Renew the connections of a sender until it is closed or forgotten."""
    while not ending.wait(_LOOK_EVERY):
        sender = reference()
        if sender is None:
            return
        sender.renew()
        # A name that stays would keep a forgotten sender.
        del sender


class _KeptSender:
    """One connection to one destination, for one thread at a time. Its first message opens it."""

    def __init__(self, connections: Connections, to: Destination, attempts: int, now: Callable[[], float]) -> None:
        self._connections, self._to, self._attempts, self._monotonic = connections, to, attempts, now
        self._open: _Link | None = None
        self._used_at = now()
        #: Held during a transfer, and while the connection is exchanged.
        self._lock = Lock()

    def send(self, messages: Sequence[ServiceBusMessage]) -> None:
        """Send in one transfer. If the open connection is broken, send again on a new one."""
        with self._lock:
            if self._open is not None and self._monotonic() - self._used_at > _DETACHED_AFTER:
                # To close a dead connection takes as long as to open one.
                Thread(target=self._open.close, name="bus-close", daemon=True).start()
                self._open = None
            self._send(messages)
            self._used_at = self._monotonic()

    def renew(self) -> None:
        """Exchange a connection that was idle for too long for a new one. Messages are sent meanwhile."""
        old = self._open
        if old is None or self._monotonic() - self._used_at < IDLE_MOST:
            return
        try:
            new = _Link.open(self._connections, self._to)
        except FAILURES:
            return
        with self._lock:
            if self._open is old:
                self._open, self._used_at, new = new, self._monotonic(), old
        new.close()

    def _send(self, messages: Sequence[ServiceBusMessage]) -> None:
        attempts = max(self._attempts, 1 if self._open is None else _ATTEMPTS)
        for left in reversed(range(attempts)):
            try:
                self._send_once(messages, is_again=left < attempts - 1)
            except MessageSizeExceededError:
                # The bus refuses it however often it is sent, and the connection is still good.
                raise
            except FAILURES as error:
                if is_busy := isinstance(error, ServiceBusServerBusyError):
                    self._connections.pushback.refuse(self._to.name)
                else:
                    self._drop()
                if not left:
                    raise
                if is_busy:
                    # The connection is good, and the library has waited once already.
                    waits = self._connections.waits
                    waits.sleep(waits.wait(_ATTEMPTS, 0.0))
            else:
                return

    def connect(self) -> None:
        """Open the connection if it is not open."""
        with self._lock:
            self._take_link()

    def close(self) -> None:
        """Close the connection. The next message opens another."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _send_once(self, messages: Sequence[ServiceBusMessage], *, is_again: bool) -> None:
        with because(Cause.RETRY) if is_again else nullcontext():
            self._connections.meter.count_bus(BusOperation.SEND, self._to.name, len(messages))
        link = self._take_link()
        # A list travels as a batch with its own envelope, which a single message does not need.
        link.sender.send_messages(list(messages) if len(messages) > 1 else messages[0])

    def _take_link(self) -> "_Link":
        if self._open is None:
            self._open, self._used_at = _Link.open(self._connections, self._to), self._monotonic()
        return self._open


class _Link(NamedTuple):
    """A connection with its one link."""

    client: ServiceBusClient
    sender: ServiceBusSender

    @classmethod
    def open(cls, connections: Connections, to: Destination) -> "_Link":
        client = connections.bus_client()
        link = cls(client, (client.get_topic_sender if to.kind == "topic" else client.get_queue_sender)(to.name))
        try:
            link.sender.__enter__()
        except FAILURES:
            link.close()
            raise
        return link

    def close(self) -> None:
        self.sender.close()
        self.client.close()


class BusReceiver(Closing):
    """Receives from a queue, or a subscription of a topic, for one thread. Close it when done.

    A message that was received is gone. With `locked_for`, it is only locked, for so many seconds at most, until `complete`.
    Its callers take any error for a bus that is away.
    """

    def __init__(
        self, connections: Connections, entity: str, subscription: str = "", *, locked_for: float = 0.0
    ) -> None:
        self._meter, self._entity = connections.meter, entity
        mode = ServiceBusReceiveMode.PEEK_LOCK if locked_for else ServiceBusReceiveMode.RECEIVE_AND_DELETE
        self._renewer = AutoLockRenewer(max_lock_renewal_duration=locked_for) if locked_for else None
        self._locked: Sequence[ServiceBusReceivedMessage] = ()
        with ExitStack() as opened:
            client = opened.enter_context(connections.bus_client())
            if subscription:
                receiver = client.get_subscription_receiver(entity, subscription, receive_mode=mode)
            else:
                receiver = client.get_queue_receiver(entity, receive_mode=mode)
            self._receiver = opened.enter_context(receiver)
            if self._renewer:
                opened.enter_context(self._renewer)
            self._opened = opened.pop_all()

    def receive(self, most: int, within: float) -> list[BusMessage]:
        """Return the messages that are there, or that come within so many seconds."""
        found = self._receiver.receive_messages(most, max_wait_time=within)
        operation = BusOperation.RECEIVE if found else BusOperation.RECEIVE_EMPTY
        self._meter.count_bus(operation, self._entity, max(1, len(found)))
        if self._renewer:
            self._locked = found
            for message in found:
                self._renewer.register(self._receiver, message)
        # The library counts those before.
        return [
            BusMessage(body=_body_of(one), subject=one.subject, deliveries=(one.delivery_count or 0) + 1)
            for one in found
        ]

    def complete(self) -> None:
        """Have the bus forget the messages of the last receive."""
        for message in self._locked:
            self._receiver.complete_message(message)

    def close(self) -> None:
        """Close the connection. A message that is still locked comes again."""
        self._opened.close()


def _body_of(message: ServiceBusReceivedMessage) -> bytes:
    """Return the bytes. A sender that is not ours may have sent a value, which has none."""
    return b"".join(message.body) if message.body_type is AmqpMessageBodyType.DATA else b""


def read_front(connections: Connections, queue: str) -> datetime | None:
    """Return when the oldest message of a queue was put there, or None if it has none. The errors are FAILURES."""
    connections.meter.count_bus(BusOperation.PEEK, queue)
    with connections.bus_client() as client:
        return peek(client, queue)


def peek(
    client: ServiceBusClient, entity: str, subscription: str = "", *, session: str | None = None
) -> datetime | None:
    """Return when the oldest message of a queue, a subscription or a session was put there. None: it is empty."""
    if subscription:
        receiver = client.get_subscription_receiver(entity, subscription, session_id=session)
    else:
        receiver = client.get_queue_receiver(entity, session_id=session)
    with receiver:
        found = receiver.peek_messages(max_message_count=1)
    return found[0].enqueued_time_utc if found else None


def is_missing(error: AzureError) -> bool:
    """Check whether the service answered that the place is not there.

    The bus says so already to the login for an entity, and its library then raises an error of the login.
    """
    if isinstance(error, ServiceBusAuthenticationError):
        return getattr(error.inner_exception, "status_code", None) == _NOT_FOUND
    return isinstance(error, (ResourceNotFoundError, MessagingEntityNotFoundError))


def is_login_refused(error: AzureError) -> bool:
    """Check whether storage or the bus answered, but refused this login."""
    return is_refused(error) or isinstance(error, (ServiceBusAuthenticationError, ServiceBusAuthorizationError))


def is_silent(error: AzureError) -> bool:
    """Check whether no service answered: storage gave no status, or no connection to the bus came about."""
    return isinstance(error, (ServiceRequestError, ServiceResponseError, ServiceBusConnectionError))
