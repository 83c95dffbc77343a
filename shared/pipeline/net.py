"""Finds submissions that no hint led to, in rooms whose queues have no trigger.

    tick -> four rooms in turn, and those where something was found within a day -> their queues, one receive each

So a day without work costs the same for one room and for two hundred. Who sends no hints waits for the turn of the room
once a day, and for the next tick from then on. The host polls the common queue by itself.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.clock import Clock
from shared.grammar import ROOMS_A_TICK
from shared.pending import AT_ONCE, NET_POINTER, Pending, Pointer
from shared.topology import submission_queue

#: How long each tick looks at a room where something was found.
WATCHED_FOR: Final = timedelta(days=1)
#: A find is noted anew after so long: a room that is used all the time costs few writes.
NOTED_EVERY: Final = timedelta(hours=1)


def rooms_in_turn(rooms: Sequence[str], now: datetime) -> Sequence[str]:
    """Return the rooms whose turn it is in this minute."""
    first = int(now.timestamp()) // 60 * ROOMS_A_TICK
    return [rooms[(first + number) % len(rooms)] for number in range(min(ROOMS_A_TICK, len(rooms)))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """The looks of the tick at the queues of rooms. One per process."""

    rooms: Sequence[str]
    #: Takes what waits on these queues, for so many seconds. Returns those where something was found.
    look: Callable[[Sequence[str], float], Collection[str]]
    pending: Pending
    clock: Clock

    def run(self, watched: Sequence[Pointer], seconds: float) -> None:
        """Look at the rooms whose turn it is and at those of these pointers, and note where something was found."""
        if not self.rooms:
            return
        now, pointers = self.clock.now(), {pointer.id: pointer for pointer in watched}
        known = set(map(submission_queue, self.rooms))
        in_turn = map(submission_queue, rooms_in_turn(self.rooms, now))
        queues = list(dict.fromkeys([*(queue for queue in pointers if queue in known), *in_turn]))
        found = self.look(queues, seconds)
        for queue in found:
            if queue not in pointers or now - _found_at(pointers[queue]) >= NOTED_EVERY:
                self.pending.add(Pointer(NET_POINTER, AT_ONCE, queue, note=now.isoformat()))
        for queue, pointer in pointers.items():
            if queue not in found and (queue not in known or now - _found_at(pointer) >= WATCHED_FOR):
                self.pending.remove(pointer)


def _found_at(pointer: Pointer) -> datetime:
    return datetime.fromisoformat(pointer.note)
