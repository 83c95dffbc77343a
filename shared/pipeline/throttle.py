"""How many puts may be in flight: a few more after a batch that used all of them, half after storage pushed back."""

from dataclasses import dataclass, replace
from typing import Final

#: Below the ten connections that the library keeps for one service, times the instances that share a queue's limit.
LEAST, MOST, FIRST = 1, 32, 8
STEP: Final = 2


@dataclass(frozen=True, slots=True)
class Throttle:
    """The limit, and what the last batch made of it."""

    limit: int = FIRST

    def after(self, *, put: int, refused: int) -> "Throttle":
        """Return the throttle for the next batch."""
        if refused:
            return replace(self, limit=max(LEAST, self.limit // 2))
        # A batch smaller than the limit did not use it, so it says nothing about more.
        return replace(self, limit=min(MOST, self.limit + STEP)) if put >= self.limit else self

    def within(self, most: int) -> "Throttle":
        """Return the throttle as far as storage bears it by what the whole fleet was told."""
        return self if self.limit <= most else replace(self, limit=max(LEAST, most))
