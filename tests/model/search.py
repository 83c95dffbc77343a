"""The walk that the searches of the gate and of permits share."""

from collections import deque
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Found:
    """What a search found: how many states, and the first harm with the way to it."""

    states: int
    harm: str = ""
    way: tuple = ()


def walk(start, canonical, look):
    """Walk through every reachable state, the shortest ways first, and stop at the first harm.

    `look` returns a state's harm, or nothing, and the states that follow; `canonical` the one that stands for all alike.
    """
    came_from, waiting = {canonical(start): None}, deque([canonical(start)])
    while waiting:
        state = waiting.popleft()
        harm, following = look(state)
        if harm:
            return Found(len(came_from), harm, _way(came_from, state))
        for found in dict.fromkeys(following):
            # Most are known already as they are, which is quicker to see than to name them anew.
            if found not in came_from and (after := canonical(found)) not in came_from:
                came_from[after] = state
                waiting.append(after)
    return Found(len(came_from))


@cache
def spelt(value):
    """Return how a value is written: by that any are sorted. There are few, so each is written once."""
    return repr(value)


def replaced(values, index, value):
    """Return the tuple with one value replaced."""
    return (*values[:index], value, *values[index + 1 :])


def _way(came_from, state):
    way = []
    while state is not None:
        way.append(state)
        state = came_from[state]
    return tuple(reversed(way))
