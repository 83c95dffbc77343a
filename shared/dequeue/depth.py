"""The depth of the queues, read once an interval for all tasks: no task pays for knowing whether to save a request."""

from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from shared.clock import Clock
from shared.errors import StorageUnavailableError


class DepthSample:
    """What `read` said last; it is called when somebody asks and the last answer is older than `every` seconds."""

    def __init__(self, read: Callable[[], int], clock: Clock, every: float, *, first: int | None = None) -> None:
        self._read, self._clock, self._every = read, clock, every
        self._depth, self._lock = first or 0, Lock()
        self._at = None if first is None else clock.monotonic()

    @property
    def last(self) -> int:
        """The last answer, however old; free."""
        return self._depth

    def depth(self) -> int:
        """Return the depth; while one thread asks, the others go by the last answer."""
        if self._is_old() and self._lock.acquire(blocking=self._at is None):
            try:
                if self._is_old():
                    # Whatever comes of it: storage that does not answer is not to be asked by every task in turn.
                    self._at = self._clock.monotonic()
                    with suppress(StorageUnavailableError):
                        self._depth = self._read()
            finally:
                self._lock.release()
        return self._depth

    def found_empty(self) -> None:
        """Take it from a task that found nothing, which is free; it says nothing about when to read next."""
        self._depth = 0

    def _is_old(self) -> bool:
        return self._at is None or self._clock.monotonic() - self._at >= self._every
