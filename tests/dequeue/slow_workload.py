"""A workload whose every transaction takes a while: a backlog of it lasts."""

import time
from typing import Final

import msgspec

#: Seconds.
TAKES: Final = 0.8


class Numbered(msgspec.Struct):
    """A transaction."""

    number: int


class Slow:
    """Waits for each transaction."""

    name, transaction, partial, sums = "slow", Numbered, int, ()

    def map(self, _transaction: Numbered, _number: int) -> int:
        """Wait."""
        time.sleep(TAKES)
        return 1

    def combine(self, mapped: list[int]) -> int:
        """Count."""
        return sum(mapped)

    def merge(self, left: int, right: int) -> int:
        """Count."""
        return left + right

    def finish(self, _partial: int) -> list[object]:
        """Return nothing: only its time is of interest."""
        return []
