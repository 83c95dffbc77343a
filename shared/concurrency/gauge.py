"""How many messages one process works on at a time: the host's own limit, less what the fleet's decision leaves it.

The host has received and leased a message before the function runs, so whoever has no slot waits inside. That holds
a lease, which is right for as long as a slot comes free soon: every other process of the fleet is at its part of the
same limit. After `patience` it is given back instead, so that another process can have it.

What one process knows of its own work without asking anybody: what it has in hand, how long things take, its CPU.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Lock
from typing import Final

from shared.clock import Clock
from shared.errors import NoSlotError

#: What the host of an instance runs of one queue at a time: host.json's batchSize and newBatchThreshold.
MOST_HERE: Final = 24
#: Seconds that a message waits for a slot; with its work it has to end within the host's functionTimeout.
PATIENCE: Final = 120.0
#: Seconds after which a limit that has grown meanwhile is noticed by who waits.
_LOOK_AGAIN: Final = 0.5


class Limiter:
    """Slots for messages; `limit` says how many there are now."""

    def __init__(
        self, limit: Callable[[], int], clock: Clock, *, patience: float = PATIENCE, look_again: float = _LOOK_AGAIN
    ) -> None:
        self._limit, self._clock, self._patience, self._look_again = limit, clock, patience, look_again
        self._free, self._taken = Condition(), 0

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return self._taken

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold a slot; raises NoSlotError when none came free in time."""
        self._take()
        try:
            yield
        finally:
            with self._free:
                self._taken -= 1
                self._free.notify()

    def _take(self) -> None:
        until = self._clock.monotonic() + self._patience
        with self._free:
            while self._taken >= max(1, self._limit()):
                left = until - self._clock.monotonic()
                if left <= 0:
                    raise NoSlotError(
                        f"no slot within {self._patience:g} s: this process works on {self._taken} messages, as many as "
                        "`sluice tune show` allows it; the message is given back"
                    )
                self._free.wait(min(left, self._look_again))
            self._taken += 1


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """The counts of a process since it started; two of them tell what happened between."""

    in_flight: int
    done: int
    #: Seconds of work on what is done.
    busy: float
    #: Cores used since the count before.
    cpu: float | None


class Gauge:
    """Counts the work of this process; safe from several threads."""

    def __init__(self, clock: Clock, cpu_seconds: Callable[[], float] = time.process_time) -> None:
        self._clock, self._cpu_seconds, self._lock = clock, cpu_seconds, Lock()
        self._in_flight, self._done, self._busy = 0, 0, 0.0
        self._read_at, self._cpu_then = clock.monotonic(), cpu_seconds()

    @property
    def in_flight(self) -> int:
        """How many messages are in work."""
        return self._in_flight

    @property
    def done(self) -> int:
        """How many were in work and are no more."""
        return self._done

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the work inside as one message, however it ends."""
        began = self._clock.monotonic()
        with self._lock:
            self._in_flight += 1
        try:
            yield
        finally:
            with self._lock:
                self._in_flight -= 1
                self._done += 1
                self._busy += self._clock.monotonic() - began

    def read(self) -> WorkCounts:
        """Return the counts; the CPU is that since the reading before."""
        now, cpu = self._clock.monotonic(), self._cpu_seconds()
        passed, used = now - self._read_at, cpu - self._cpu_then
        with self._lock:
            self._read_at, self._cpu_then = now, cpu
            return WorkCounts(self._in_flight, self._done, self._busy, used / passed if passed > 0 else None)
