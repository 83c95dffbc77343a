"""Twist's generator, ported as published, to be measured and to be caught.

Its two defects are switches, so that a test can show what each one does: the ETag is looked up when writing instead of
when reading, and the range is taken into use before the write is known to have succeeded.
"""

import threading

from shared.azure import OptimisticStore


class SeedStore:
    """Twist's store: text in, text out, true or false."""

    def __init__(self, store: OptimisticStore, *, etag_at_write: bool = True) -> None:
        self._store, self._etag_at_write = store, etag_at_write
        self._etag: str | None = None

    def get_data(self) -> str:
        """Return the value, and keep its ETag."""
        snapshot = self._store.read()
        assert snapshot is not None, "Twist asks the administrator to create the blob"
        self._etag = snapshot.etag
        return snapshot.value.decode()

    def try_optimistic_write(self, data: str) -> bool:
        """Write on the ETag that is at hand."""
        if self._etag_at_write:
            self.get_data()
        return self._store.try_write(data.encode(), self._etag) is not None


class SeedGenerator:
    """Twist's UniqueIdGenerator."""

    def __init__(
        self, store: SeedStore, range_size: int = 1000, max_retries: int = 25, *, adopts_before_write: bool = True
    ) -> None:
        self._store, self._range_size, self._max_retries = store, range_size, max_retries
        self._adopts_before_write = adopts_before_write
        self._lock = threading.Lock()
        self._last_id = self._upper_limit = 0
        self._update()

    def next_id(self) -> int:
        """Return the next id."""
        with self._lock:
            if self._last_id == self._upper_limit:
                self._update()
            taken = self._last_id
            self._last_id += 1
            return taken

    def _update(self) -> None:
        for _ in range(self._max_retries + 1):
            start = int(self._store.get_data())
            if self._adopts_before_write:
                self._last_id, self._upper_limit = start, start + self._range_size
            if self._store.try_optimistic_write(str(start + self._range_size)):
                self._last_id, self._upper_limit = start, start + self._range_size
                return
        raise RuntimeError("no write succeeded")
