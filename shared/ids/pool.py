"""The numbers a process holds and has not handed out, in memory."""

from collections import deque
from typing import Final

#: Remnants too small for the blocks that are asked for would pile up without end; beyond this many the shortest is
#: left, and the log says so.
MOST_SPANS: Final = 8


class Pool:
    """Ranges of numbers, handed out from the oldest; used under its owner's lock."""

    def __init__(self) -> None:
        self._spans: deque[range] = deque()
        self._left: list[range] = []
        self._lent = range(0)
        #: How many numbers are held.
        self.size = 0

    def add(self, numbers: range) -> None:
        """Take a range in; next to the newest one it makes one range with it, so that blocks find room."""
        self.size += len(numbers)
        if self._spans and self._spans[-1].stop == numbers.start:
            numbers = range(self._spans.pop().start, numbers.stop)
        self._spans.append(numbers)
        if len(self._spans) > MOST_SPANS:
            shortest = min(self._spans, key=len)
            self._spans.remove(shortest)
            self._left.append(shortest)
            self.size -= len(shortest)

    def lend(self, most: int) -> range | None:
        """Take up to `most` numbers to hand out one by one; they count as open until the next are lent."""
        if not self._spans:
            return None
        self._lent = self._take(0, min(most, len(self._spans[0])))
        return self._lent

    def block(self, count: int) -> range | None:
        """Take exactly `count` adjoining numbers from the oldest range that has them, or None."""
        for place, span in enumerate(self._spans):
            if len(span) >= count:
                return self._take(place, count)
        return None

    def _take(self, place: int, count: int) -> range:
        span = self._spans[place]
        if len(span) == count:
            del self._spans[place]
        else:
            self._spans[place] = span[count:]
        self.size -= count
        return span[:count]

    def open(self) -> tuple[range, ...]:
        """Return the ranges that are not, or not surely, handed out."""
        return (self._lent, *self._spans) if self._lent else tuple(self._spans)

    def take_left(self) -> tuple[range, ...]:
        """Take the ranges that were given up since the last call."""
        left, self._left = tuple(self._left), []
        return left

    def take_all(self) -> tuple[range, ...]:
        """Take everything that is not lent."""
        spans = tuple(self._spans)
        self._spans.clear()
        self.size = 0
        return spans
