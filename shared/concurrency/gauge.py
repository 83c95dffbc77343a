"""Measures the work of one process without any request: messages in work, seconds per message, CPU."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from shared.clock import Clock


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """The counts of a process since it started. The difference of two shows what happened in between."""

    in_flight: int
    done: int
    #: Seconds of work on the messages that are done.
    busy: float
    #: Cores used since the previous counts.
    cpu: float | None
    #: Chunks whose payload was read, and the stored bytes of these payloads.
    chunks: int = 0
    stored: int = 0


class Gauge:
    """Counts the work of this process. Several threads may use it."""

    def __init__(self, clock: Clock, cpu_seconds: Callable[[], float] = time.process_time) -> None:
        self._clock, self._cpu_seconds, self._lock = clock, cpu_seconds, Lock()
        self._in_flight, self._done, self._busy = 0, 0, 0.0
        self._chunks, self._stored = 0, 0
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

    def weigh(self, stored: int) -> None:
        """Count a chunk whose payload has so many stored bytes."""
        with self._lock:
            self._chunks += 1
            self._stored += stored

    def read(self) -> WorkCounts:
        """Return the counts. The CPU is measured since the previous call."""
        now, cpu = self._clock.monotonic(), self._cpu_seconds()
        passed, used = now - self._read_at, cpu - self._cpu_then
        with self._lock:
            self._read_at, self._cpu_then = now, cpu
            cores = used / passed if passed > 0 else None
            return WorkCounts(self._in_flight, self._done, self._busy, cores, self._chunks, self._stored)
