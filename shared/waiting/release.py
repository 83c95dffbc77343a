"""Waits for a gate from any worker process: by polling, by listening, or both, as one `with` block.

with Connections(storage, bus) as connections, Release(connections, "nightly") as release:
    release.wait(timeout=3600)

The one listener of a process: receives signals on a leased subscription, and rings for every wait of the process.

It leases one subscription of the waiters' pool, so that no two processes share it: a signal on a shared subscription
would wake only one of them.
"""

import os
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from azure.storage.blob import ContainerClient

from shared.azure import BlobLease, BlobStore, BusReceiver, Connections, try_lease
from shared.clock import Clock, Closing, ClosingEitherWay, SystemClock
from shared.gate import Gates, Receipt, ReceiptTable, this_node
from shared.signals import TOPIC
from shared.telemetry import events, tell
from shared.topology import WAITER_SUBSCRIPTIONS
from shared.waiting.watch import Flag, GateFlag, Waiting, Watch

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
        with BusReceiver(self._connections, TOPIC, leased.subscription) as receiver:
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

    def _hear(self, receiver: BusReceiver) -> None:
        for gate in {str(message.subject) for message in receiver.receive(100, RECEIVE_SECONDS)}:
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


#: Seconds between two reads of the flag.
POLL_SECONDS: Final = 2.5
POLLING, LISTENING, BOTH = "polling", "listening", "listening and polling"


class PollingRelease(Closing):
    """Waits by reading a flag at an interval: simple, and late by at most the interval."""

    mode = POLLING

    def __init__(self, flag: Flag, interval: float = POLL_SECONDS, *, clock: Clock | None = None) -> None:
        self._watch = Watch(flag, interval)
        self._waiting = Waiting(self._watch, clock or SystemClock(), this_node())

    def wait(self, timeout: float | None = None) -> Receipt:
        """Return when the flag is set, or raise ReleaseExpiredError after that many seconds."""
        return self._waiting.wait(timeout)

    async def wait_async(self, timeout: float | None = None) -> Receipt:  # noqa: ASYNC109 - the twin of `wait`
        """Do what `wait` does without blocking the event loop."""
        return await self._waiting.wait_async(timeout)

    def close(self) -> None:
        """Stop reading the flag."""
        self._watch.close()


class Release(ClosingEitherWay):
    """Waits for a gate: subscribes, reads the flag, then waits for a signal or the next poll, and reads again.

    A signal only causes a read; its content is not believed. `served` is the last epoch that this worker has served.
    Give it to wait for the next epoch, even if that one is still open. All waits of this process over the same
    connections share one listener, and one read of each gate.
    """

    def __init__(
        self,
        connections: Connections,
        gate: str,
        *,
        served: int | None = None,
        interval: float | None = POLL_SECONDS,
        node: str = "",
    ) -> None:
        process = _process_of(connections)
        self._listener, self._interval, self._parts = process.listener, interval, ExitStack()
        watch = self._parts.enter_context(process.watching(gate, interval))
        self._waiting = Waiting(watch, process.clock, node or this_node(), served=served, record=process.record)
        # Subscribe before the first read: a signal reports an opening after that read, the read finds one before it.
        self._parts.enter_context(self._listener.subscribe(gate, watch.ring))

    @property
    def mode(self) -> str:
        """The way in which it finds the opening now: `listening and polling`, or only one of them."""
        if not self._listener.is_listening:
            return POLLING
        return LISTENING if self._interval is None else BOTH

    @property
    def problem(self) -> str:
        """The reason why it does not listen although it should, or ""."""
        return self._listener.problem

    @property
    def served(self) -> int | None:
        """The last epoch that released it."""
        return self._waiting.served

    def wait(self, timeout: float | None = None) -> Receipt:
        """Return when the gate releases, or raise ReleaseExpiredError after that many seconds.

        Call it again for the next epoch. Work that must not start early is safe after it: it never returns without an
        opening.
        """
        return self._waiting.wait(timeout)

    async def wait_async(self, timeout: float | None = None) -> Receipt:  # noqa: ASYNC109 - the twin of `wait`
        """Do what `wait` does without blocking the event loop."""
        return await self._waiting.wait_async(timeout)

    def close(self) -> None:
        """Stop listening and reading. The last release of the process ends its listener."""
        self._parts.close()


class ListeningRelease(Release):
    """Waits for signals only. It makes no request while nothing happens, and is not released without a signal.

    It reads the flag once at its beginning, so it finds an opening before that. If a later signal is lost, it misses
    the opening. Use Release to poll too.
    """

    def __init__(self, connections: Connections, gate: str, *, served: int | None = None, node: str = "") -> None:
        super().__init__(connections, gate, served=served, interval=None, node=node)


class _Process:
    """The parts that all releases of this process over the same connections share."""

    def __init__(self, connections: Connections) -> None:
        # Built here and not in `shared.app`: a worker that only waits should not import the whole app.
        container = connections.blobs.get_container_client("gates")
        self.listener, self.clock = Listener(connections), SystemClock()
        self._gates = Gates(lambda name: BlobStore(container, name))
        self._receipts = ReceiptTable(connections.tables.get_table_client("receipts"))
        self._watches: dict[tuple[str, float | None], tuple[Watch, int]] = {}
        self._recorded: set[tuple[str, int, str]] = set()
        self._lock = threading.Lock()

    @contextmanager
    def watching(self, gate: str, interval: float | None) -> Iterator[Watch]:
        """Yield the one watch of that gate and interval. The last user ends it."""
        with self._lock:
            watch, users = self._watches.get((gate, interval)) or (Watch(GateFlag(self._gates, gate), interval), 0)
            self._watches[gate, interval] = watch, users + 1
        try:
            yield watch
        finally:
            with self._lock:
                watch, users = self._watches.pop((gate, interval))
                if users > 1:
                    self._watches[gate, interval] = watch, users - 1
            if users == 1:
                watch.close()

    def record(self, receipt: Receipt) -> None:
        """Write the first receipt of a node for an epoch."""
        key = (receipt.gate, receipt.epoch, receipt.node)
        with self._lock:
            is_first = key not in self._recorded
            self._recorded.add(key)
        if is_first:
            self._receipts.write(receipt)


_processes: "weakref.WeakKeyDictionary[Connections, _Process]" = weakref.WeakKeyDictionary()
_processes_lock: Final = threading.Lock()


def _process_of(connections: Connections) -> _Process:
    with _processes_lock:
        if connections not in _processes:
            _processes[connections] = _Process(connections)
        return _processes[connections]
