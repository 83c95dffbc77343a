"""Events a second by how many transfers run at the same time, to a bus that refuses above a limit, and without one.

The local broker answers in a millisecond. So each transfer takes twenty here, as one to a namespace in Azure may, and the
limit is that of messages in a second, as a namespace has credits.
"""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusServerBusyError

from local.azurite.launcher import Azurite
from local.stack import settings_for
from servicebus_local.entities import Namespace, Subscription, Topic
from servicebus_local.launcher import Broker
from shared.azure import BusSender, Connections, Destination, Pushback
from shared.clock import SystemClock
from shared.errors import NotPublishedError
from shared.eventsourcing import Event
from shared.messaging import BusPublisher, EventRange, event_parcels, message_of, shard_of
from tests.benchmarks.registration_goals import Finding, say

#: Seconds of a transfer at least, and messages in a second that the bus bears.
TRANSFER, LIMIT = 0.02, 300
#: Streams that have an event at the same time, as the batches of some functions have.
STREAMS: Final = 60
MOST: Final = 30
#: Seconds of each measurement at most.
_SECONDS: Final = 10
#: A stream whose event was refused sends it again after that.
_AGAIN_AFTER: Final = 0.1
_TOPIC: Final = Destination("topic", "events")


class LimitedBus:
    """The way to the local broker, which refuses above so many messages in each second."""

    def __init__(self, sender: BusSender, pushback: Pushback, limit: int | None) -> None:
        self._sender, self._pushback, self._limit = sender, pushback, limit
        self._lock, self._second, self._taken = threading.Lock(), 0, 0
        self.refused = 0

    def send(self, to: Destination, messages: Sequence[ServiceBusMessage]) -> None:
        """Send, or refuse all of them."""
        began = time.monotonic()
        is_taken = self._take(len(messages))
        if is_taken:
            self._sender.send(to, messages)
        time.sleep(max(0.0, began + TRANSFER - time.monotonic()))
        if not is_taken:
            error = ServiceBusServerBusyError(
                message="The request was terminated because the entity is being throttled."
            )
            self._pushback.on_bus_error(error)
            raise error

    def _take(self, number: int) -> bool:
        with self._lock:
            second = int(time.monotonic())
            if second != self._second:
                self._second, self._taken = second, 0
            if self._limit is not None and self._taken + number > self._limit:
                self.refused += number
                return False
            self._taken += number
            return True


class Ungoverned(Pushback):
    """Always allows everything."""

    def limit(self, full: int, used: int, resource: str = "") -> int:
        """Return all."""
        return full


@dataclass(frozen=True, slots=True)
class Way:
    """One way of sending."""

    name: str
    most: int
    limit: int | None = None
    is_governed: bool = False
    #: One message for each event, as the port sends.
    is_port: bool = False


WAYS: Final = (
    *(Way("port, one message for each event", most, is_port=True) for most in (1, MOST)),
    *(Way("port, one message for each event", most, LIMIT, is_port=True) for most in (1, MOST)),
    *(Way("Sluice", most) for most in (1, MOST)),
    *(Way("Sluice, not governed", most, LIMIT) for most in (1, MOST)),
    Way("Sluice, governed", MOST, LIMIT, is_governed=True),
)


def measure(seconds: int) -> Finding:
    """Measure every way on one broker."""
    rules = Namespace((), (Topic(_TOPIC.name, (Subscription("all"),)),))
    head = ("sending by", "transfers at once", "limit, messages/s", "events/s", "messages refused for each 100 events")
    rows = [head]
    with Azurite.start() as azurite, Broker.start(rules) as broker:
        settings = settings_for(azurite.connection_string, broker.connection_string)
        for way in WAYS:
            rows.append(_measure(way, settings, min(seconds, _SECONDS)))
            say(" | ".join(rows[-1]))
    note = f"{STREAMS} streams with an event each at the same time. A transfer takes {TRANSFER * 1000:g} ms at least."
    return Finding("parallel", rows, [], note)


def _measure(way: Way, settings: dict[str, str], seconds: int) -> tuple[str, ...]:
    with Connections.parse(settings) as connections, BusSender(connections, most=way.most) as sender:
        pushback = (Pushback if way.is_governed else Ungoverned)(SystemClock())
        bus = LimitedBus(sender, pushback, way.limit)
        send = _one_by_one(bus, way.most) if way.is_port else BusPublisher(bus, pushback, way.most).send
        # Opens the connections.
        _send_for(0.5, send)
        refused = bus.refused
        sent = _send_for(seconds, send)
        refused = bus.refused - refused
    limit = f"{way.limit}" if way.limit else "none"
    return way.name, f"{way.most}", limit, f"{sent / seconds:,.0f}", f"{100 * refused / max(sent, 1):.1f}"


def _one_by_one(bus: LimitedBus, most: int) -> Callable[..., None]:
    free = threading.Semaphore(most)

    def send(parcels: Sequence[object]) -> None:
        for parcel in parcels:
            with free:
                try:
                    bus.send(_TOPIC, [message_of([parcel])])  # type: ignore[list-item]  # parcels, as the publisher takes
                except ServiceBusServerBusyError as error:
                    raise NotPublishedError("refused") from error

    return send


def _send_for(seconds: float, send: Callable[..., None]) -> int:
    """Have every stream send its events, one after the other. Return how many were sent."""
    end, run = time.monotonic() + seconds, time.monotonic_ns()

    def stream(number: int) -> int:
        home = f"order-{run}-{number}"
        for version in itertools.count(1):
            if time.monotonic() >= end:
                return version - 1
            event = Event("order_reserved", {"reserved": {"standard": 2}}, datetime.now(UTC), version=version)
            parcels = list(event_parcels(_TOPIC, str(shard_of(home)), EventRange(home, version, version, (event,))))
            while True:
                try:
                    send(parcels)
                except NotPublishedError:
                    if time.monotonic() >= end:
                        return version - 1
                    time.sleep(_AGAIN_AFTER)
                else:
                    break
        raise AssertionError("versions do not end")

    with ThreadPoolExecutor(STREAMS) as pool:
        return sum(pool.map(stream, range(STREAMS)))
