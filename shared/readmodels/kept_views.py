"""Rows that this process wrote or read last, with their ETags: a write begins with one instead of a read.

The ETag proves it. If another process has written the row since, the write is refused, and the row is read.
"""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final

from shared.readmodels.slot_table import StoredView

#: Rows of one model that a process keeps: some hundred bytes each.
MOST_KEPT: Final = 5000


class KeptViews:
    """The rows, by any key. Those used longest ago are forgotten first. Several threads may use it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, str], StoredView] = OrderedDict()
        self._lock = Lock()

    def find(self, version: object, home: str) -> StoredView | None:
        """Return the row of a home in a version, or None."""
        with self._lock:
            return self._kept.get((version, home))

    def keep(self, version: object, views: Iterable[StoredView]) -> None:
        """Keep rows of a version."""
        with self._lock:
            for one in views:
                self._kept[version, one.home] = one
                self._kept.move_to_end((version, one.home))
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
