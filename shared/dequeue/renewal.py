"""Renews whatever is held for longer than half of its time, by one thread for a whole listener."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from threading import Condition, Thread
from types import TracebackType
from typing import Final, Protocol, Self

from shared.clock import Clock

#: Between two looks at least: what is due again at once must not keep a processor busy.
SHORTEST: Final = 0.05


class Renewable(Protocol):
    """Something that is held for a time."""

    @property
    def due(self) -> float:
        """When it must be renewed, in the clock's monotonic seconds."""
        ...

    def renew(self) -> None:
        """Hold it for as long again; never raises."""
        ...


class Renewals:
    """What is being held; `look` renews what is due, and a thread of its own looks while it is entered."""

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
        """Begin to renew it."""
        with self._changed:
            self._kept.add(held)
            self._changed.notify()

    def drop(self, held: Renewable) -> None:
        """End renewing it; a renewal under way may still end after this."""
        with self._changed:
            self._kept.discard(held)

    def look(self) -> None:
        """Renew what is due."""
        now = self._clock.monotonic()
        with self._changed:
            due = [held for held in self._kept if held.due <= now]
        for held in due:
            held.renew()

    def _run(self) -> None:
        while not self._is_ended:
            self.look()
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
