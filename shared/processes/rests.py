"""Who is slowed when the namespace pushes back: the lanes of receivers, and how long each rests after its work.

The host's own settings are static. So a function rests in proportion to its work, by the share of its lane.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from math import sqrt
from typing import Final

from shared.azure import Pushback
from shared.clock import Clock

#: The resource whose governor says how much the namespace bears.
_NAMESPACE: Final = "bus"
#: The part of a lock that a rest takes at most: the batch is completed only after it.
_MOST_OF_LOCK: Final = 1 / 3


class PaceLane(Enum):
    """The receivers by how soon their work is needed. Each never falls below a floor."""

    #: Payments, expiry, operators' commands, seats.
    FIRST = "first"
    ORDERS = "orders"
    READ_MODELS = "read_models"


def share(lane: PaceLane, bearable: float) -> float:
    """Return the part of the time in which a lane works, when the namespace bears this share of the full rate."""
    if lane is PaceLane.FIRST:
        return max(0.5, sqrt(bearable))
    return max(0.25, bearable) if lane is PaceLane.ORDERS else max(0.1, bearable**2)


def rest_after(work: float, share: float, lock: float) -> float:
    """Return the seconds to rest after so many seconds of work, so that the lane works for its share of the time."""
    return min(work * (1 / share - 1), lock * _MOST_OF_LOCK)


@dataclass(frozen=True, slots=True)
class Pace:
    """Rests after the work of a batch, as long as the namespace pushes back."""

    pushback: Pushback
    clock: Clock
    sleep: Callable[[float], object]

    def share(self, lane: PaceLane) -> float:
        """Return the share of a lane now."""
        governor = self.pushback.governors().get(_NAMESPACE)
        return share(lane, governor.share if governor else 1.0)

    @contextmanager
    def __call__(self, lane: PaceLane, lock: float) -> Iterator[None]:
        """Enter around the work of a batch whose lock lasts so many seconds."""
        began_at = self.clock.monotonic()
        yield
        rest = rest_after(self.clock.monotonic() - began_at, self.share(lane), lock)
        if rest > 0:
            self.sleep(rest)
