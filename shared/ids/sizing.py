"""How many numbers to reserve at a time: pure, from the measured rate and the conflicts."""

import math
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Self

#: Seconds over which the measured rate forgets; also what a burst at the start is averaged over, so that ten ids in a
#: microsecond do not count as ten million a second.
MEMORY: Final = 0.5
#: Part of a refill's conflicts that the pressure takes over.
_WEIGHT: Final = 0.5
#: A range grows by at most this factor of the one before: a cold start that ends early has burnt little.
_GROWTH: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The bounds of a range.

    `range_size` is what a node may hold only to save requests: up to it a range lasts `patience`. A node that is so
    busy that this would be used up within `horizon` gets `horizon` worth of numbers instead, up to `largest`.
    """

    first: int = 10
    range_size: int = 1000
    largest: int = 1_000_000
    patience: timedelta = timedelta(seconds=20)
    horizon: timedelta = timedelta(seconds=2)

    @classmethod
    def up_to(cls, range_size: int) -> Self:
        """Return the usual bounds for this range size."""
        usual = cls()
        return cls(first=min(usual.first, range_size), range_size=range_size, largest=max(usual.largest, range_size))

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.range_size <= self.largest:
            raise ValueError(
                f"first {self.first}, range_size {self.range_size} and largest {self.largest} must rise from 1 or more"
            )
        if not timedelta(0) < self.horizon <= self.patience:
            raise ValueError(f"horizon {self.horizon} must be above zero and at most patience {self.patience}")


@dataclass(frozen=True, slots=True)
class Demand:
    """What was measured so far."""

    #: Ids a second.
    rate: float = 0.0
    #: Refused writes for each reservation, a moving average.
    pressure: float = 0.0
    #: Size of the range before, 0 for none.
    previous: int = 0

    def after_drawing(self, count: int, seconds: float) -> "Demand":
        """Return the demand after `count` ids were drawn, evenly, in the last `seconds`."""
        kept = math.exp(-max(seconds, 0.0) / MEMORY)
        # For no time at all the limit of (1 - kept) / seconds.
        share = (1 - kept) / seconds if seconds > 0 else 1 / MEMORY
        return replace(self, rate=self.rate * kept + count * share)

    def after_refill(self, size: int, conflicts: int) -> "Demand":
        """Return the demand after a range was reserved."""
        pressure = self.pressure * (1 - _WEIGHT) + conflicts * _WEIGHT
        return replace(self, previous=size, pressure=pressure)


def next_size(demand: Demand, sizing: Sizing) -> int:
    """Return how many numbers the next range should have."""
    if demand.previous == 0:
        return sizing.first
    saving = min(demand.rate * sizing.patience.total_seconds(), sizing.range_size)
    needed = demand.rate * sizing.horizon.total_seconds()
    # Twice the conflicts halve the number of writers that meet at the blob.
    wanted = max(saving, needed) * (1 + demand.pressure)
    grown = demand.previous * _GROWTH * (1 + demand.pressure)
    return int(max(sizing.first, min(wanted, grown, sizing.largest)))


def low_mark(demand: Demand, sizing: Sizing) -> int:
    """Return how few numbers may be left when the next range is fetched: half a horizon's, at most a whole range."""
    ahead = demand.rate * sizing.horizon.total_seconds() / 2
    return int(min(demand.previous, max(demand.previous // 4, ahead)))
