"""Finds messages on the work queues that no instance was woken for, although no job is open.

By push, an instance wakes for a permit only. The tick tops permits up while a job is open. A message that is put for
no open job has a pointer that counts as one. Beside that, the depths are read once an hour.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from shared.clock import Clock
from shared.pending import PendingTable, Pointer, point_at_work
from shared.telemetry import events, tell

#: The minute of each hour at which the depths are read. Not that of the poison queues.
HOURLY_AT: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranded:
    """The looks at the work queues while no job is open. One per process."""

    #: Reads the depth of one work queue, by its name.
    depths: Mapping[str, Callable[[], int]]
    pending: PendingTable
    clock: Clock
    #: Whether permits alone wake instances.
    is_push: bool

    def follow(self, pointer: Pointer, _until: float) -> None:
        """Follow a pointer to a work queue: it stays until the queue is empty."""
        read = self.depths.get(pointer.id)
        if read is not None and read():
            # The later pointer first: no message may be there that the tick cannot find.
            point_at_work(self.pending, self.clock, pointer.id)
        self.pending.remove(pointer)

    def find(self) -> bool:
        """Check once an hour whether a work queue has messages. Called while no job is open."""
        if not self.is_push or self.clock.now().minute != HOURLY_AT:
            return False
        found = {name: depth for name, read in self.depths.items() if (depth := read())}
        if found:
            tell(events.WORK_STRANDED, queues=sorted(found), messages=sum(found.values()))
        return bool(found)
