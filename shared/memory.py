"""The upper bound of memory for all work of one process. Each piece of work reserves its bytes and waits for its turn.

A bound per message does not bound a process that handles 24 of them. So each piece of work names its upper bound in bytes
beforehand, and begins when that much is free. First come, first served: small work cannot overtake large work without
end. A holder never requests more, so no piece of work waits for one that waits itself.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Condition
from typing import Final

from shared.clock import Clock, SystemClock
from shared.errors import NoSlotError

MIB: Final = 1024 * 1024
#: Seconds that a message waits. Waiting and work together have to end within the host's functionTimeout.
PATIENCE: Final = 120.0


class Memory:
    """A number of bytes that are lent out."""

    def __init__(self, most: int, *, clock: Clock | None = None, patience: float = PATIENCE) -> None:
        self._most, self._clock, self._patience = most, clock or SystemClock(), patience
        self._changed, self._waiting, self._lent = Condition(), deque[object](), 0

    @contextmanager
    def hold(self, wanted: int) -> Iterator["Loan"]:
        """Hold so many bytes, at most all of them. Raises NoSlotError if they are not free in time."""
        held = Loan(self, min(wanted, self._most))
        self._take(held.bytes)
        try:
            yield held
        finally:
            held.keep(0)

    def give_back(self, given: int) -> None:
        """Take back lent bytes."""
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
                            f"could not reserve {wanted} bytes of memory within {self._patience:g} s: other messages "
                            f"hold {self._lent} of {self._most}; the message is redelivered",
                            waits_for="memory",
                        )
                    self._changed.wait(left)
                self._lent += wanted
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()


class Loan:
    """The bytes that one piece of work holds."""

    def __init__(self, memory: Memory, held: int) -> None:
        self._memory, self.bytes = memory, held

    def keep(self, needed: int) -> None:
        """Give back the bytes beyond `needed`."""
        if needed < self.bytes:
            given, self.bytes = self.bytes - needed, needed
            self._memory.give_back(given)


class Lanes:
    """Two memories, so that small work does not wait minutes for large work."""

    def __init__(self, small: int, large: int, large_from: int) -> None:
        self._small, self._large, self._from = Memory(small), Memory(large), large_from

    def hold(self, wanted: int) -> AbstractContextManager[Loan]:
        """Hold so many bytes, of the lane for that size."""
        return (self._small if wanted < self._from else self._large).hold(wanted)
