"""How long a task waits before it asks an empty queue again: random and exponential, so that tasks come apart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

#: Doubling further passes any interval; it only keeps the power finite.
_MOST_DOUBLINGS: Final = 40
#: How far the random step may be from the given one.
_LOWEST, _HIGHEST = 0.8, 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """Seconds: `shortest` + (2 ** empty receives in a row - 1) x a random part around `step`, never above `longest`."""

    shortest: float = 0.0
    longest: float = 1.0
    step: float = 0.1

    def __post_init__(self) -> None:
        if not (0 <= self.shortest <= self.longest and self.longest > 0 and self.step > 0):
            raise ValueError(f"{self} makes no sense: expected 0 <= shortest <= longest, longest > 0 and step > 0")

    def delay(self, empties: int, uniform: Callable[[float, float], float]) -> float:
        """Return the wait after so many empty receives in a row; `uniform` is the caller's random number in a range."""
        doubled = 2.0 ** min(empties, _MOST_DOUBLINGS) - 1.0
        return min(self.longest, self.shortest + doubled * uniform(self.step * _LOWEST, self.step * _HIGHEST))

    def is_longest(self, delay: float) -> bool:
        """Whether a task that waits so long has been idle for as long as it may be."""
        return delay >= self.longest
