"""The one listener of a process: receives signals on a leased subscription, and rings for every wait of the process.

It leases one subscription of the waiters' pool, so that no two processes share it: a signal on a shared subscription
would wake only one of them.
"""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from azure.servicebus import ServiceBusReceiveMode, ServiceBusReceiver
from azure.storage.blob import ContainerClient

from shared.azure import BlobLease, BusOperation, Connections, try_lease
from shared.signals import TOPIC
from shared.telemetry import events, tell
from shared.topology import WAITER_SUBSCRIPTIONS

#: Seconds between two renewals: one may fail before the lease ends.
RENEW_SECONDS: Final = 25.0
#: Gate names begin with a letter or a digit, so no gate has this name.
FOLDER: Final = "_listeners"
POOL: Final = tuple(f"waiters-{number:02}" for number in range(WAITER_SUBSCRIPTIONS))


@dataclass(frozen=True, slots=True)
class SubscriptionLease:
    """A leased subscription. Renew the lease in time and release it at the end."""

    subscription: str
    lease: BlobLease


def lease_one(container: ContainerClient, pool: Sequence[str] = POOL) -> SubscriptionLease | None:
    """Lease the first free subscription of the pool. Return None when all are taken."""
    # Processes begin at different places, so that sixteen of them do not try the same sixteen in the same order.
    first = os.getpid() % len(pool)
    for subscription in (*pool[first:], *pool[:first]):
        if lease := try_lease(container, f"{FOLDER}/{subscription}"):
            return SubscriptionLease(subscription, lease)
    return None


#: Seconds that one receive waits. Only between two receives does the listener end or renew its lease.
RECEIVE_SECONDS: Final = 1.0
#: Seconds until the listener tries again after the bus failed, or when every subscription is taken.
RETRY_SECONDS: Final = 5.0
Ring = Callable[[], None]


class Listener:
    """Receives signals while it has subscribers, and rings each for its gate, and after every gap.

    A subscription keeps the signals that were sent before the listener attached to it. So a subscriber that subscribes
    first and then reads the flag misses nothing. Without a bus or a free subscription, no subscriber is rung and
    `problem` says why. Then they must poll.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._rings: defaultdict[str, list[Ring]] = defaultdict(list)
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._problem = "" if connections.has_bus else "there is no bus"

    @property
    def is_listening(self) -> bool:
        """True while signals are received."""
        return self._thread is not None and not self._problem

    @property
    def problem(self) -> str:
        """The reason why no subscriber is rung, or ""."""
        return self._problem

    @contextmanager
    def subscribe(self, gate: str, ring: Ring) -> Iterator[None]:
        """Ring for every signal of the gate. The first subscriber starts the listener, the last one ends it."""
        with self._lock:
            self._rings[gate].append(ring)
            if self._thread is None and self._connections.has_bus:
                self._start()
        try:
            yield
        finally:
            with self._lock:
                self._rings[gate].remove(ring)
                ended = self._take_thread() if not any(self._rings.values()) else None
            if ended is not None:
                ended.join()

    def _start(self) -> None:
        self._stop, self._problem = threading.Event(), "not attached yet"
        self._thread = threading.Thread(target=self._run, args=(self._stop,), name="release-listener", daemon=True)
        self._thread.start()

    def _take_thread(self) -> threading.Thread | None:
        self._stop.set()
        thread, self._thread = self._thread, None
        return thread

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self._listen_once(stop)
            except Exception as error:  # noqa: BLE001 - without this thread, nothing would report that there is no push
                self._give_up_for_now(f"the bus or its lease does not answer ({type(error).__name__})")
            stop.wait(RETRY_SECONDS)

    def _listen_once(self, stop: threading.Event) -> None:
        leased = lease_one(self._connections.blobs.get_container_client("gates"))
        if leased is None:
            self._give_up_for_now("every subscription for waiters is taken by another process")
            return
        try:
            self._listen(leased, stop)
        finally:
            leased.lease.release()

    def _listen(self, leased: SubscriptionLease, stop: threading.Event) -> None:
        with (
            self._connections.bus_client() as bus,
            bus.get_subscription_receiver(
                TOPIC, leased.subscription, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
            ) as receiver,
        ):
            renewed, self._problem = time.monotonic(), ""
            # The signals that were sent while this process did not listen went to subscriptions of others.
            self._ring_all()
            while not stop.is_set():
                self._hear(receiver)
                if time.monotonic() - renewed > RENEW_SECONDS:
                    if not leased.lease.renew():
                        self._give_up_for_now("the lease of the subscription was lost")
                        return
                    renewed = time.monotonic()

    def _hear(self, receiver: ServiceBusReceiver) -> None:
        heard = receiver.receive_messages(max_message_count=100, max_wait_time=RECEIVE_SECONDS)
        received = BusOperation.RECEIVE if heard else BusOperation.RECEIVE_EMPTY
        self._connections.meter.count_bus(received, TOPIC, max(1, len(heard)))
        for gate in {str(message.subject) for message in heard}:
            self._ring(gate)

    def _ring(self, gate: str) -> None:
        with self._lock:
            rings = list(self._rings.get(gate, ()))
        for ring in rings:
            ring()

    def _ring_all(self) -> None:
        with self._lock:
            gates = list(self._rings)
        for gate in gates:
            self._ring(gate)

    def _give_up_for_now(self, problem: str) -> None:
        if problem != self._problem:
            tell(events.LISTENER_POLLING, reason=problem)
        self._problem = problem
