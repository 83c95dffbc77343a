"""Trying again within the time that a function has: outages until the time is up, lost races a bounded number of times."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from shared.clock import Clock
from shared.errors import ContentionError, StorageUnavailableError

#: Seconds: half the lock of a batch of results, which nobody renews, less one attempt against a silent storage.
TIME_OF_A_BATCH: Final = 120.0
#: Eight settlers on one job lose a few races each; this many means that something else is wrong.
MOST_RACES: Final = 50
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 2.0


@dataclass(slots=True)
class Patience:
    """The time that one invocation may spend on trying again; `pause` waits, so that a test need not."""

    clock: Clock
    pause: Callable[[float], None]
    seconds: float = TIME_OF_A_BATCH
    most_races: int = MOST_RACES
    jitter: Callable[[float, float], float] = random.uniform
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = self.clock.monotonic() + self.seconds

    def until_done(self, attempt: Callable[[int], bool], tried: str) -> None:
        """Call `attempt` with its number until it says that it is done; False means that somebody else was first."""
        races = number = 0
        while True:
            try:
                if attempt(number):
                    return
                races += 1
                if races >= self.most_races:
                    raise ContentionError(f"could not {tried}: others were first {races} times in a row")
            except StorageUnavailableError:
                if self.clock.monotonic() >= self._until:
                    raise
            self._pause(number)
            number += 1

    def _pause(self, number: int) -> None:
        # From nothing to the limit, not around it: settlers that collided must not meet again.
        self.pause(self.jitter(0.0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(number, 10))))
