"""The messages that one process handles at a time: their limit, and the measurement of its work.

`Limiter` bounds them by the host's own limit and by this process's part of the fleet's decision. The host has received
and leased a message before the function runs, so a message without a slot waits inside the function. That holds its
lease, which is right while a slot comes free soon: every other process of the fleet is at its part of the same limit.
After `patience` the message is given back, so that another process can have it.

`Gauge` measures without any request: messages in work, seconds per message, CPU.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition, Lock
from typing import Final

from shared.clock import Clock
from shared.errors import NoSlotError

#: The messages of one queue that the host of an instance runs at a time: host.json's batchSize and newBatchThreshold.
MOST_HERE: Final = 24
#: Seconds that a message waits for a slot. The wait and its work must end within the host's functionTimeout.
PATIENCE: Final = 120.0
#: Seconds after which a waiting message notices that the limit has grown.
_LOOK_AGAIN: Final = 0.5


class Limiter:
    """Slots for messages. `limit` returns how many there are now."""

    def __init__(
        self, limit: Callable[[], int], clock: Clock, *, patience: float = PATIENCE, look_again: float = _LOOK_AGAIN
    ) -> None:
        self._limit, self._clock, self._patience, self._look_again = limit, clock, patience, look_again
        self._free, self._taken = Condition(), 0

    @property
    def taken(self) -> int:
        """The number of slots taken."""
        return self._taken

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold a slot, or raise NoSlotError if none came free in time."""
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
                        f"no slot came free within {self._patience:g} s: this process handles {self._taken} messages, "
                        "its limit (see `sluice tune show`); the message is given back"
                    )
                self._free.wait(min(left, self._look_again))
            self._taken += 1


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """The counts of a process since it started. The difference of two shows what happened in between."""

    in_flight: int
    done: int
    #: Seconds of work on the messages that are done.
    busy: float
    #: Cores used since the previous counts.
    cpu: float | None


class Gauge:
    """Counts the work of this process. Several threads may use it."""

    def __init__(self, clock: Clock, cpu_seconds: Callable[[], float] = time.process_time) -> None:
        self._clock, self._cpu_seconds, self._lock = clock, cpu_seconds, Lock()
        self._in_flight, self._done, self._busy = 0, 0, 0.0
        self._read_at, self._cpu_then = clock.monotonic(), cpu_seconds()

    @property
    def in_flight(self) -> int:
        """The number of messages in work."""
        return self._in_flight

    @property
    def done(self) -> int:
        """The number of messages whose work has ended."""
        return self._done

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the work inside as one message, also if it fails."""
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
        """Return the counts. The CPU is measured since the previous call."""
        now, cpu = self._clock.monotonic(), self._cpu_seconds()
        passed, used = now - self._read_at, cpu - self._cpu_then
        with self._lock:
            self._read_at, self._cpu_then = now, cpu
            return WorkCounts(self._in_flight, self._done, self._busy, used / passed if passed > 0 else None)
