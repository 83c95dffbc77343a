"""Numbers that many threads take one by one without a lock.

With the interpreter lock, one step of a `range` iterator is one indivisible step for all threads. A free-threaded build
(3.13 and later, `Py_GIL_DISABLED`) promises no such thing and may hand one number to two threads, so there each step
takes a lock of its own.
"""

import sysconfig
import threading
from collections.abc import Iterator
from typing import Final, TypeAlias

IS_FREE_THREADED: Final = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


class LockedLane:
    """An iterator over a range that hands each number to one thread on any build."""

    def __init__(self, numbers: range) -> None:
        self._numbers, self._lock = iter(numbers), threading.Lock()

    def __iter__(self) -> "LockedLane":
        return self

    def __next__(self) -> int:
        with self._lock:
            return next(self._numbers)

    def rest(self) -> list[int]:
        """Take all that is left, in one step."""
        with self._lock:
            return list(self._numbers)


Lane: TypeAlias = Iterator[int]


def lane(numbers: range) -> Lane:
    """Return an iterator that threads may share."""
    return LockedLane(numbers) if IS_FREE_THREADED else iter(numbers)


def drain(shared: Lane) -> range:
    """Take all that is left; whoever still holds the lane finds it empty from then on.

    The lane is emptied, not replaced: a thread between reading the attribute and taking its number would take one that
    is about to be given back.
    """
    rest = shared.rest() if isinstance(shared, LockedLane) else list(shared)
    return range(rest[0], rest[-1] + 1) if rest else range(0)
