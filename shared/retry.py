"""One bounded back-off with jitter, for lost races and outages.

`all_tried` runs several acts of which a failed one must not stop the others.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import SystemRandom
from typing import Final, TypeVar

from shared.errors import ContentionError, StorageUnavailableError


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
