"""64-bit ids that sort by time, for keys where a sequence would say too much or wait for storage.

From the highest bit: 41 of milliseconds since 2025, 12 of a counter, 10 of the node number; so the ids of one node are
evenly spaced and a block of them is a `range`, even across milliseconds.
"""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from shared.clock import Clock, SystemClock
from shared.closing import ClosingEitherWay
from shared.errors import ClockWentBackError, GeneratorClosedError, SluiceError, WaitExpiredError
from shared.ids import node_lease
from shared.ids.book import Book, Patience
from shared.ids.forking import disown_in_children
from shared.ids.node_lease import NODES, Lease, LeaseTable
from shared.ids.range_generator import node_name
from shared.ids.store import OptimisticStore
from shared.ids.waiting import Flight, take, take_async
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import told

EPOCH: Final = datetime(2025, 1, 1, tzinfo=UTC)
#: Ids of one node in one millisecond.
TICKS: Final = 4096


@dataclass(frozen=True, slots=True)
class Moment:
    """What a time-ordered id says."""

    at: datetime
    count: int
    node: int


def read_id(number: int) -> Moment:
    """Return what the id says of its making."""
    ticks, node = divmod(number, NODES)
    milliseconds, count = divmod(ticks, TICKS)
    return Moment(EPOCH + timedelta(milliseconds=milliseconds), count, node)


class TimeOrderedGenerator(ClosingEitherWay):
    """Makes ids of the present millisecond and a leased node number; safe for any number of threads, and coroutines.

    An id is made only for a millisecond within the lease, so no two processes make the same one, whatever their clocks
    say. When the clock goes back, callers wait until it has caught up, or are refused when that takes longer than
    `wait`. Use it as a context manager, or call `close`, which frees the node number. A forked child makes its own.
    """

    def __init__(  # noqa: PLR0913  # all but the store have a default that suits
        self,
        store: OptimisticStore,
        *,
        lease: timedelta = timedelta(minutes=1),
        wait: timedelta = timedelta(seconds=10),
        max_attempts: int = 25,
        clock: Clock | None = None,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._name, self.holder = store.name, node_name()
        self._lease_for, self._wait, self._pause = _milliseconds(lease), wait.total_seconds(), pause
        self._clock = clock or SystemClock()
        self._closing = threading.Event()
        self._patience = Patience(max_attempts, self._closing.wait)
        self._book = Book(store, node_lease.parse, lambda: node_lease.empty(secrets.token_hex(8), self._clock.now()))
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="sluice-nodes")
        self._flight: Flight | None = None
        self._lock = threading.Lock()
        self._refusal = ""
        self._lease: Lease | None = None
        self._last, self._latest = -1, 0
        disown_in_children(self)

    def next_id(self) -> int:
        """Return the next id."""
        return self.next_ids(1)[0]

    async def anext_id(self) -> int:
        """Return the next id without blocking the event loop."""
        return (await self.anext_ids(1))[0]

    def next_ids(self, count: int) -> range:
        """Return a block of ids, evenly spaced; more than 4096 take a millisecond for each as many."""
        claimed = take(lambda: self._claim(count), self._clock, self._wait, self._what)
        self._pause_for(self._ahead(claimed))
        return claimed

    async def anext_ids(self, count: int) -> range:
        """Return a block of ids, evenly spaced, without blocking the event loop."""
        claimed = await take_async(lambda: self._claim(count), self._clock, self._wait, self._what)
        ahead = self._ahead(claimed)
        if ahead > 0:
            await asyncio.sleep(ahead / 1000)
        return claimed

    def close(self) -> None:
        """End, and free the node number for others; safe to call twice."""
        with self._lock:
            if self._refusal:
                return
            self._refusal = f"the generator of {self._name!r} is closed; make a new one"
        self._closing.set()
        self._worker.shutdown()
        if self._lease is None:
            return
        try:
            self._book.amend(self._release, Patience(5, time.sleep))
        except SluiceError as error:
            # The lease ends by itself.
            tell(events.IDS_RELEASE_FAILED, node=self.holder, error=told(error))

    def disown(self) -> None:
        """Refuse every call from now on: the lease belongs to the process this one was forked from."""
        self._lock = threading.Lock()
        self._refusal = (
            f"the generator of {self._name!r} was made before this process was forked, and its node number stays with "
            "the parent; make a generator, and its client, in the child"
        )

    def _claim(self, count: int) -> range | Flight:
        if count < 1:
            raise ValueError(f"asked for {count} ids, expected 1 or more")
        with self._lock:
            if self._refusal:
                raise GeneratorClosedError(self._refusal)
            now = self._now()
            self._latest, latest = max(now, self._latest), self._latest
            begin = self._lease.begin if self._lease else now
            first = max(now * TICKS, begin * TICKS, self._last + 1)
            end = (first + count - 1) // TICKS + 1
            self._refuse_to_wait(end - now, latest - now)
            lease = self._lease
            if lease is None or end > lease.end:
                return self._fly(end)
            if now > lease.end - self._lease_for // 2:
                self._fly(end)
            self._last = first + count - 1
            return range(first * NODES + lease.node, (first + count) * NODES + lease.node, NODES)

    def _refuse_to_wait(self, ahead: int, behind: int) -> None:
        """Raise when the ids would be of a time that a caller does not wait for: they are never given early."""
        if ahead <= self._wait * 1000 + 1:
            return
        if behind > 0:
            raise ClockWentBackError(
                f"the clock of {self.holder} is {behind} ms behind an id it has made for {self._name!r}, more than the "
                f"{self._wait:g} s that a caller waits; set the clock right, or wait until it has caught up"
            )
        raise WaitExpiredError(
            f"ids of {self._name!r} are used up {ahead} ms ahead, more than the {self._wait:g} s that a caller waits; "
            f"a node makes {TICKS} a millisecond: ask for smaller blocks, or spread them over more processes"
        )

    def _fly(self, end: int) -> Flight:
        if self._flight is None or self._flight.done():
            self._flight = self._worker.submit(self._renew, end)
        return self._flight

    def _renew(self, end: int) -> SluiceError | None:
        """Get or prolong the lease; a renewal whose reply was lost is found in the table, under our own name."""

        def change(table: LeaseTable) -> LeaseTable:
            now = self._now()
            wanted = max(end, now) + self._lease_for
            own = table.held_by(self.holder)
            if own and own.end >= wanted - self._lease_for // 4:
                return table
            return node_lease.granted(table, self.holder, now, wanted, secrets.token_hex(8), self._clock.now())

        try:
            table = self._book.amend(change, self._patience)
        except SluiceError as error:
            tell(events.IDS_LEASE_FAILED, node=self.holder, error=told(error))
            return error
        with self._lock:
            self._lease = table.held_by(self.holder)
        return None

    def _release(self, table: LeaseTable) -> LeaseTable:
        unused_from = self._last // TICKS + 1
        return node_lease.released(table, self.holder, unused_from, secrets.token_hex(8), self._clock.now())

    def _ahead(self, claimed: range) -> int:
        return claimed[-1] // NODES // TICKS - self._now()

    def _pause_for(self, milliseconds: int) -> None:
        if milliseconds > 0:
            self._pause(milliseconds / 1000)

    def _now(self) -> int:
        return _milliseconds(self._clock.now() - EPOCH)

    @property
    def _what(self) -> str:
        return f"id of {self._name!r}"


def _milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
