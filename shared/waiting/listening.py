"""The one listener of a process: hears signals on a leased subscription and rings for everybody who waits here.

One subscription of the waiters' pool, leased so that no two processes share it: a shared one would wake only one.
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

#: One renewal may fail before the lease ends.
RENEW_SECONDS: Final = 25.0
#: Gates begin with a letter or a digit, so no gate is called like this.
FOLDER: Final = "_listeners"
POOL: Final = tuple(f"waiters-{number:02}" for number in range(WAITER_SUBSCRIPTIONS))


@dataclass(frozen=True, slots=True)
class SubscriptionLease:
    """A leased subscription; renew the lease in time and release it at the end."""

    subscription: str
    lease: BlobLease


def lease_one(container: ContainerClient, pool: Sequence[str] = POOL) -> SubscriptionLease | None:
    """Return the first subscription of the pool that is free, None when all are taken."""
    # Processes begin at different places, so that sixteen of them do not ask for the same sixteen in the same order.
    first = os.getpid() % len(pool)
    for subscription in (*pool[first:], *pool[:first]):
        if lease := try_lease(container, f"{FOLDER}/{subscription}"):
            return SubscriptionLease(subscription, lease)
    return None


#: Seconds that one receive waits; the listener ends and renews its lease between two of them.
RECEIVE_SECONDS: Final = 1.0
#: Seconds until the listener tries again after the bus went away, or when every subscription is taken.
RETRY_SECONDS: Final = 5.0
Ring = Callable[[], None]


class Listener:
    """Hears signals while somebody subscribes; whoever subscribes is rung for their gate, and after every gap.

    A subscription keeps what was sent before the listener attached to it, so who subscribes and then reads the flag
    misses nothing. If there is no bus, or no free subscription, nobody is rung and `problem` says why: poll.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._rings: defaultdict[str, list[Ring]] = defaultdict(list)
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._problem = "" if connections.has_bus else "there is no bus"

    @property
    def is_listening(self) -> bool:
        """Whether signals are heard now."""
        return self._thread is not None and not self._problem

    @property
    def problem(self) -> str:
        """Why nobody is rung, or nothing."""
        return self._problem

    @contextmanager
    def subscribe(self, gate: str, ring: Ring) -> Iterator[None]:
        """Ring for every signal of the gate; the first one to subscribe starts the listener, the last one ends it."""
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
            except Exception as error:  # noqa: BLE001 - without this thread nobody would say that there is no push
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
            # Whatever was sent while nobody listened here was sent to a subscription that is not ours.
            self._ring_everybody()
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

    def _ring_everybody(self) -> None:
        with self._lock:
            gates = list(self._rings)
        for gate in gates:
            self._ring(gate)

    def _give_up_for_now(self, problem: str) -> None:
        if problem != self._problem:
            tell(events.LISTENER_POLLING, reason=problem)
        self._problem = problem
