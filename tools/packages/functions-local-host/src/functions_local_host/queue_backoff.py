"""How long the queue listener waits before it asks an empty queue again."""

import math
from datetime import timedelta

#: The first wait and the step that doubles.
SHORTEST = timedelta(milliseconds=100)
#: The spread of the random factor on the doubled step.
LOWEST_FACTOR, HIGHEST_FACTOR = 0.8, 1.2
#: Doubling further passes any interval host.json can hold; it only keeps the power finite.
_MOST_DOUBLINGS = 40


def empty_wait(earlier_empties: int, longest: timedelta, factor: float) -> timedelta:
    """Return the wait after an empty answer that `earlier_empties` others came before, since the last message.

    `factor` is the caller's random number between LOWEST_FACTOR and HIGHEST_FACTOR.
    """
    if earlier_empties == 0:
        return min(SHORTEST, longest)
    doublings = min(earlier_empties - 1, _MOST_DOUBLINGS)
    return min(SHORTEST + SHORTEST * math.ldexp(factor, doublings), longest)
