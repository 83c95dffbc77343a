"""How long an answer about free seats may be kept: the closer to the end of the seats, the shorter."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, NamedTuple


class Step(NamedTuple):
    """A step of a ladder: with at least so much left, an answer is kept for so long."""

    at_least: int
    keep: timedelta


@dataclass(frozen=True, slots=True)
class Ladder:
    """The steps, from the highest down, and the time for an answer that says that nothing is left."""

    steps: tuple[Step, ...]
    #: An answer "sold out" is wrong as soon as something is given back, and right most of the time. So it is kept, for
    #: as long as customers may be turned away wrongly.
    sold_out: timedelta

    def keep(self, remaining: Iterable[int]) -> timedelta:
        """Return how long an answer may be kept. The scarcest kind that is not sold out decides."""
        left = [count for count in remaining if count > 0]
        if not left:
            return self.sold_out
        return next((step.keep for step in self.steps if min(left) >= step.at_least), timedelta())


#: Over 200 left: 5 minutes; 100 to 200: one minute; 30 to 99: 20 seconds; fewer: not at all.
SEATS_LADDER: Final = Ladder(
    (Step(201, timedelta(minutes=5)), Step(100, timedelta(minutes=1)), Step(30, timedelta(seconds=20))),
    sold_out=timedelta(seconds=20),
)
