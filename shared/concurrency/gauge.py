"""What one process knows of its own work without asking anybody: what it has in hand, how long things take, its CPU."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from shared.clock import Clock


@dataclass(frozen=True, slots=True)
class Counted:
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

    def read(self) -> Counted:
        """Return the counts; the CPU is that since the reading before."""
        now, cpu = self._clock.monotonic(), self._cpu_seconds()
        passed, used = now - self._read_at, cpu - self._cpu_then
        with self._lock:
            self._read_at, self._cpu_then = now, cpu
            return Counted(self._in_flight, self._done, self._busy, used / passed if passed > 0 else None)
