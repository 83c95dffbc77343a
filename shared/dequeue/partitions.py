"""Which of several work queues a task asks next: all in rotation, so that none starves."""

from collections.abc import Sequence
from threading import Lock


class Partitions:
    """The queues that tasks share out among themselves, by name.

    With `ends`, a queue is asked no more after its first empty receive, by any of the tasks: one empty receive a queue
    and not one for each task.
    """

    def __init__(self, names: Sequence[str], *, first: int = 0, ends: bool = False) -> None:
        if not names:
            raise ValueError("no queue is named: a listener needs at least one")
        begin = first % len(names)
        self._names, self._ends = [*names[begin:], *names[:begin]], ends
        self._lock = Lock()

    def next(self) -> str | None:
        """Return the queue whose turn it is; None when every one has ended."""
        with self._lock:
            if not self._names:
                return None
            name = self._names.pop(0)
            self._names.append(name)
            return name

    def found_empty(self, name: str, in_a_row: int) -> bool:
        """Note that a receive came back empty, and say whether there is nothing left to ask before a rest."""
        with self._lock:
            if self._ends and name in self._names:
                self._names.remove(name)
            return not self._names if self._ends else in_a_row >= len(self._names)
