"""How much memory the work of one process may take together: whoever needs much asks first, and waits for its turn.

A bound on one message is no bound on a process that works on 24 of them. So each says beforehand, in bytes, what it may
need at most, and begins when that much is free. First come, first served: what is large is not overtaken for ever. Who
holds something never asks for more, so that nobody waits for somebody who waits.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Condition
from typing import Final

from shared.clock import Clock, SystemClock
from shared.errors import NoSlotError

MIB: Final = 1024 * 1024
#: Seconds that a message waits; with its work it has to end within the host's functionTimeout.
PATIENCE: Final = 120.0


class Memory:
    """So many bytes that are lent out."""

    def __init__(self, most: int, *, clock: Clock | None = None, patience: float = PATIENCE) -> None:
        self._most, self._clock, self._patience = most, clock or SystemClock(), patience
        self._changed, self._waiting, self._lent = Condition(), deque[object](), 0

    @contextmanager
    def hold(self, wanted: int) -> Iterator["Loan"]:
        """Hold so many bytes; what wants more than there is has all of it. Raises NoSlotError when it took too long."""
        held = Loan(self, min(wanted, self._most))
        self._take(held.bytes)
        try:
            yield held
        finally:
            held.keep(0)

    def give_back(self, given: int) -> None:
        """Take back what was lent."""
        with self._changed:
            self._lent -= given
            self._changed.notify_all()

    def _take(self, wanted: int) -> None:
        until, ticket = self._clock.monotonic() + self._patience, object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                while self._waiting[0] is not ticket or self._lent + wanted > self._most:
                    left = until - self._clock.monotonic()
                    if left <= 0:
                        raise NoSlotError(
                            f"{wanted} bytes of memory did not come free within {self._patience:g} s: {self._lent} of "
                            f"{self._most} are in use by other messages; the message is given back"
                        )
                    self._changed.wait(left)
                self._lent += wanted
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()


class Loan:
    """What one piece of work holds."""

    def __init__(self, memory: Memory, held: int) -> None:
        self._memory, self.bytes = memory, held

    def keep(self, needed: int) -> None:
        """Give back what turned out not to be needed."""
        if needed < self.bytes:
            given, self.bytes = self.bytes - needed, needed
            self._memory.give_back(given)


class Lanes:
    """Two of them, so that nothing small waits for something large that takes minutes."""

    def __init__(self, small: int, large: int, large_from: int) -> None:
        self._small, self._large, self._from = Memory(small), Memory(large), large_from

    def hold(self, wanted: int) -> AbstractContextManager[Loan]:
        """Hold so many bytes of the lane where they belong."""
        return (self._small if wanted < self._from else self._large).hold(wanted)
