"""What the tick does for push: permits for the slots that nobody runs although there is work."""

from dataclasses import dataclass

from shared.dequeue.permits import Fleet
from shared.dequeue.slots import Slots
from shared.pipeline.messages import Permit
from shared.signals import SendPermits


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUp:
    """Sends the permits that were lost, or were never sent; a permit too many finds its slot taken."""

    slots: Slots
    fleet: Fleet
    send: SendPermits

    def run(self, depth: int, tasks: int | None = None) -> int:
        """Send a permit for each slot that is wanted and free; returns how many. `tasks` are those over the fleet."""
        wanted = self.fleet.wanted(depth) if tasks is None else max(0, min(tasks, depth))
        slots = -(-wanted // self.fleet.tasks)
        if not slots:
            return 0
        held = self.slots.held()
        return self.send([Permit(slot=slot, depth=depth, tasks=wanted) for slot in range(slots) if slot not in held])
