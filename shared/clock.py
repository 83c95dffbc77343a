"""The clock that is handed to all code. Only this module of `shared` reads the operating system's time.

Base classes of objects that are closed when done: by `with`, or by `async with` without blocking the event loop.

One bounded back-off with jitter, for lost races and outages.

`all_tried` runs several acts of which a failed one must not stop the others.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import SystemRandom
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from shared.errors import ContentionError, StorageUnavailableError


class Clock(Protocol):
    """Tells the time of day, which may jump, and a time that only moves forward."""

    def now(self) -> datetime:
        """Return the time of day in UTC, aware."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an unknown moment, never fewer than before."""
        ...

    def of_reply(self, named: datetime | None) -> datetime:
        """Return the time that a reply of storage named, by its one clock for all instances. None: it named no time."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the time of day in UTC, aware."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an unknown moment, never fewer than before."""
        return time.monotonic()

    def of_reply(self, named: datetime | None) -> datetime:
        """Return the time that a reply named, or this machine's time if it named none."""
        return named or self.now()


class Closing(ABC):
    """Closed at the end of its `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Close it. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ClosingEitherWay(Closing):
    """Closed at the end of its `with` block or of its `async with` block."""

    async def aclose(self) -> None:
        """Close it without blocking the event loop."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and how long an attempt is repeated, with which pauses."""

    #: A lost race means that another writer succeeded; this many in a row mean another fault.
    attempts: int = 20
    #: Whether there is time to retry after an outage. By default the first outage is raised.
    within: Callable[[], bool] = _never
    #: Waits the given seconds. True: further attempts are of no use.
    pause: Callable[[float], bool | None] = time.sleep
    #: Number of failed attempts that are repeated without a pause.
    at_once: int = 1
    #: Seconds of the first and of the longest pause, and the factor from one pause to the next.
    first: float = 0.01
    longest: float = 1.0
    growth: float = 2.0
    #: A random number from 0 to 1, by a source that a forked process does not share.
    jitter: Callable[[], float] = SystemRandom().random
    #: After the last lost race the caller continues without its change, and no error is raised.
    give_up: bool = False

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}, expected 1 or more")

    def tries(self) -> Iterator[int]:
        """Yield the number of each attempt from 1, after its pause."""
        for number in range(1, self.attempts + 1):
            if self._wait(number - 1):
                return
            yield number

    def until_done(self, attempt: Callable[[int], bool], tried: str) -> None:
        """Call `attempt` with its number, from 0, until it returns True. False: it lost a race."""
        races = number = 0
        while True:
            try:
                if attempt(number):
                    return
                races += 1
                if races >= self.attempts:
                    raise ContentionError(f"could not {tried}: other writers were first {races} times in a row")
            except StorageUnavailableError:
                if not self.within():
                    raise
            number += 1
            self._wait(number)

    def _wait(self, failed: int) -> bool:
        pauses = failed - self.at_once
        if pauses < 1:
            return False
        # From zero up to the limit, not around it: writers that collided must not collide again.
        longest = min(self.longest, self.first * self.growth ** min(pauses - 1, 100))
        return bool(self.pause(self.jitter() * longest))


#: For one row of the ledger, which few processes write at the same time.
LOST_RACES: Final = Retry()
_Outcome = TypeVar("_Outcome")


def all_tried(acts: Iterable[Callable[[], _Outcome]], failed: Callable[[Exception], object]) -> list[_Outcome]:
    """Run all acts and return their outcomes. Reports each failure to `failed`, then raises the first one at the end."""
    outcomes: list[_Outcome] = []
    first: Exception | None = None
    for act in acts:
        try:
            outcomes.append(act())
        except Exception as error:  # noqa: BLE001 - any failure: the acts after it do not depend on it
            failed(error)
            first = first or error
    if first is not None:
        raise first
    return outcomes
