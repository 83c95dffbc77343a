"""Lets a burst have its decision when it is put, and not only at the next tick, when it may be over."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field

from shared.clock import Clock
from shared.concurrency.decide import Decision
from shared.concurrency.fleet import LOOK_EVERY
from shared.concurrency.following import Following
from shared.errors import StorageUnavailableError


@dataclass(slots=True, kw_only=True)
class Foresight:
    """Decides before a put that calls for more tasks than are decided, then wakes whoever is woken for it."""

    following: Following
    decide: Callable[[int], Decision]
    wake: Callable[[int, int], AbstractContextManager[None]]
    clock: Clock
    every: float = LOOK_EVERY
    _decided_at: float = field(default=float("-inf"), init=False)

    @contextmanager
    def __call__(self, messages: int, coming: int) -> Iterator[None]:
        """Enter around a put of so many messages, the first of `coming` in the same dispatch."""
        if self._is_news(coming):
            self._decided_at = self.clock.monotonic()
            # The tick decides it otherwise; work is put in any case.
            with suppress(StorageUnavailableError):
                self.following.learn(self.decide(coming))
        with self.wake(messages, coming):
            yield

    def _is_news(self, coming: int) -> bool:
        if self.clock.monotonic() - self._decided_at < self.every:
            return False
        self.following.look()
        return self.following.decided() < self.following.rule(coming)
