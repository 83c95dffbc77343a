"""Slots of permits, each the right to run a few tasks. Pure: who may run how many follows from numbers alone.

Slot 0 stands for the first tasks of the fleet, slot 1 for the next ones, and so on; whoever runs the tasks of a slot
holds its lease. So however many permits there are, doubled, forged or late, no task runs twice at a time, and all
together are never more than the cap.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """How many tasks there may be over all instances, and how they are shared out into slots."""

    #: Tasks that a depth calls for.
    rule: Callable[[int], int]
    #: Tasks that may run now.
    cap: Callable[[], int]
    #: Tasks of one slot.
    tasks: int

    def wanted(self, depth: int) -> int:
        """Return how many tasks a depth calls for: no more than may run, no more than there are messages."""
        return max(0, min(self.rule(depth), self.cap(), depth))

    def slots(self, depth: int) -> int:
        """Return how many slots that takes."""
        return -(-self.wanted(depth) // self.tasks)

    def allowance(self, slot: int) -> int:
        """Return how many tasks of this slot may run now: all slots together have the cap."""
        return min(max(self.cap() - slot * self.tasks, 0), self.tasks)
