"""The store for tests and for one process that keeps nothing."""

import itertools
import threading

from shared.azure.value_store import Snapshot
from shared.clock import Clock, SystemClock


class MemoryStore:
    """An OptimisticStore in a dictionary; every store made from one by `beside` shares it."""

    def __init__(self, name: str = "memory", clock: Clock | None = None) -> None:
        self._name, self._clock = name, clock or SystemClock()
        self._values: dict[str, Snapshot] = {}
        self._lock, self._etags = threading.Lock(), itertools.count(1)

    @property
    def name(self) -> str:
        """What error messages call this value."""
        return self._name

    def read(self) -> Snapshot | None:
        """Return the value with its ETag, or None when there is none."""
        with self._lock:
            return self._values.get(self._name)

    def try_write(self, value: bytes, etag: str | None) -> str | None:
        """Write if the ETag still holds, or if there is no value yet when it is None."""
        with self._lock:
            held = self._values.get(self._name)
            if (held.etag if held else None) != etag:
                return None
            written = Snapshot(value, f'"{next(self._etags)}"', self._clock.now())
            self._values[self._name] = written
            return written.etag

    def beside(self, name: str) -> "MemoryStore":
        """Return the store of another value that belongs to this one."""
        other = MemoryStore(f"{self._name}/{name}", self._clock)
        other._values, other._lock, other._etags = self._values, self._lock, self._etags
        return other
