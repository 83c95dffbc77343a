"""How many tasks a process runs, changed by compare-and-set only: no two tasks ever act on the same count.

"Stop if more than one runs", read first and acted upon later, lets two tasks see "two" and leaves none; "start what is
missing" lets two tasks start it twice. Here whoever acts has changed the count from exactly what it decided upon.
"""

from threading import Lock
from typing import Protocol


class Cell(Protocol):
    """A number that several threads share."""

    def load(self) -> int:
        """Return it."""
        ...

    def compare_and_set(self, expected: int, wanted: int) -> bool:
        """Make it `wanted` if it is still `expected`, and say whether it was."""
        ...


class AtomicCell:
    """The cell of one process."""

    def __init__(self) -> None:
        self._value, self._lock = 0, Lock()

    def load(self) -> int:
        """Return it."""
        return self._value

    def compare_and_set(self, expected: int, wanted: int) -> bool:
        """Make it `wanted` if it is still `expected`, and say whether it was."""
        with self._lock:
            if self._value != expected:
                return False
            self._value = wanted
            return True


class TaskCount:
    """The tasks of one process that run or are about to."""

    def __init__(self, cell: Cell | None = None) -> None:
        self._cell = cell or AtomicCell()

    @property
    def active(self) -> int:
        """How many there are."""
        return self._cell.load()

    def grow_to(self, wanted: int) -> int:
        """Count as many as are missing, and return how many: the caller starts exactly those."""
        while (active := self._cell.load()) < wanted:
            if self._cell.compare_and_set(active, wanted):
                return wanted - active
        return 0

    def leave(self, least: int) -> bool:
        """Take one off if more than `least` are left with it; the task that is told True ends, any other stays."""
        while (active := self._cell.load()) > least:
            if self._cell.compare_and_set(active, active - 1):
                return True
        return False
