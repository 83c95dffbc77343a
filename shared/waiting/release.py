"""Waits for a gate from any worker process: by polling, by listening, or both, as one `with` block.

with Connections(storage, bus) as connections, Release(connections, "nightly") as release:
    release.wait(timeout=3600)
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from shared.azure import BlobStore, Connections
from shared.clock import Clock, SystemClock
from shared.closing import Closing, ClosingEitherWay
from shared.gate import Gates, Receipt, ReceiptTable, this_node
from shared.waiting.listening import Listener
from shared.waiting.wait import Waiting
from shared.waiting.watch import Flag, GateFlag, Watch

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
