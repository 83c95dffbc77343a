"""Wakes the listener of a queue when this host instance itself has put a message there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Wake = Callable[[], object]


class QueueWatcher:
    """The listeners of each queue in this process. Messages sent with the SDK are not seen here, as in the real host."""

    def __init__(self) -> None:
        self._wakes: dict[str, list[Wake]] = {}

    @contextmanager
    def watching(self, queue: str, wake: Wake) -> Iterator[None]:
        """Call `wake` for every message put into the queue until the context ends. It may be called from any thread."""
        wakes = self._wakes.setdefault(queue, [])
        wakes.append(wake)
        try:
            yield
        finally:
            wakes.remove(wake)

    def notify(self, queue: str) -> None:
        """Tell the listeners of the queue that a message was put there."""
        for wake in tuple(self._wakes.get(queue, ())):
            wake()


#: One process is one host instance, and the real host keeps this by queue name for the whole instance.
WATCHER = QueueWatcher()
