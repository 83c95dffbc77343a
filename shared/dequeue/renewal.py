"""Renewals of held messages and leases, each in good time before its end, by one thread per listener."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from threading import Condition, Thread
from types import TracebackType
from typing import Final, Protocol, Self

from shared.clock import Clock

#: Seconds between two rounds at least: a renewal that is due again at once must not keep a processor busy.
SHORTEST: Final = 0.05


class Renewable(Protocol):
    """A message or lease that is held for a time."""

    @property
    def due(self) -> float:
        """The moment of the next renewal, in the clock's monotonic seconds."""
        ...

    def renew(self) -> None:
        """Hold it for its full time again. Never raises."""
        ...


class Renewals:
    """Everything that is kept renewed. While entered, a thread of its own calls `renew_due` in time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: set[Renewable] = set()
        self._changed, self._is_ended = Condition(), False
        self._thread = Thread(target=self._run, name="renewals", daemon=True)

    @contextmanager
    def keep_leased(self, held: Renewable) -> Iterator[None]:
        """Renew it in time while inside."""
        self.keep(held)
        try:
            yield
        finally:
            self.drop(held)

    def keep(self, held: Renewable) -> None:
        """Start renewing it."""
        with self._changed:
            self._kept.add(held)
            self._changed.notify()

    def drop(self, held: Renewable) -> None:
        """Stop renewing it. A renewal under way may still end after this."""
        with self._changed:
            self._kept.discard(held)

    def renew_due(self) -> None:
        """Renew everything that is due."""
        now = self._clock.monotonic()
        with self._changed:
            due = [held for held in self._kept if held.due <= now]
        for held in due:
            held.renew()

    def _run(self) -> None:
        while not self._is_ended:
            self.renew_due()
            self._rest()

    def _rest(self) -> None:
        with self._changed:
            if not self._is_ended:
                due = min((held.due for held in self._kept), default=inf)
                wait = max(SHORTEST, due - self._clock.monotonic())
                self._changed.wait(None if wait == inf else wait)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_ended = True
            self._changed.notify()
        self._thread.join()
