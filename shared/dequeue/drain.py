"""What a permit starts on one instance: the tasks of its slot, until the queues are empty or the time is up.

    lease the slot; one task receives; if there is work the others start; at an empty receive all end; release the slot

Whoever puts messages looks which slots are held and wakes only the others. A message that is put after the last receive
of a drain and before the release of its slot would wake nobody, so slot 0, the first that anybody wakes, looks once more
after its release.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from shared.clock import Clock
from shared.dequeue.hooks import Listening, Telling, push
from shared.dequeue.listener import QueueListener
from shared.dequeue.permits import SlotLease, SlotPlan, Slots
from shared.dequeue.renewal import Renewals
from shared.dequeue.work_queue import WorkSource
from shared.errors import StorageUnavailableError
from shared.messages import Delivery, Permit, decode_permit
from shared.signals import SendPermits
from shared.telemetry import describe_error, events, tell

#: Seconds until a drain receives no more: it has handed over within four minutes of its start, while the bus still
#: keeps the permit's lock for it (five) and the host lets it run (ten).
PATIENCE: Final = 220.0
#: Seconds for which a drain goes by the depth that it knows.
DEPTH_EVERY: Final = 10.0


class Drained(StrEnum):
    """How a drain ended."""

    #: It found the queues empty, or its slot may run nothing any more.
    GAVE_UP = "gave up"
    #: The time was up: another permit for the same slot was sent.
    HANDED_OVER = "handed over"
    #: Somebody else runs this slot.
    TAKEN = "taken"
    #: No task of this slot may run now.
    BEYOND_CAP = "beyond the cap"
    #: What came is no permit.
    REFUSED = "refused"
    #: Storage did not answer; the tick sends another permit.
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """What draining needs; one for each process."""

    sources: Sequence[WorkSource]
    handle: Callable[[Delivery], object]
    fleet: SlotPlan
    slots: Slots
    send: SendPermits
    clock: Clock
    #: Called when a task has found work, before it begins: what the cap goes by may be old.
    look: Callable[[], object] = lambda: None
    patience: float = PATIENCE
    visibility: int = 30

    def on_signal(self, body: bytes) -> Drained:
        """Follow one signal; never raises: a permit that fails would be tried again at once, ten times."""
        permit = decode_permit(body)
        if permit is None:
            tell(events.PERMIT_REFUSED, bytes=len(body))
            return Drained.REFUSED
        try:
            drained = self.run(permit)
        except StorageUnavailableError as error:
            tell(events.PERMIT_UNANSWERED, slot=permit.slot, error=describe_error(error))
            return Drained.UNANSWERED
        tell(events.PERMIT_FOLLOWED, slot=permit.slot, outcome=drained.value)
        return drained

    def run(self, permit: Permit) -> Drained:
        """Run the tasks of the permit's slot as long as there is work."""
        until = self.clock.monotonic() + self.patience
        while True:
            drained = self._drain(permit, until)
            if drained is not Drained.GAVE_UP or permit.slot or not any(source.waits() for source in self.sources):
                return drained

    def _drain(self, permit: Permit, until: float) -> Drained:
        if not self.fleet.allowance(permit.slot):
            return Drained.BEYOND_CAP
        lease = self.slots.lease(permit.slot)
        if lease is None:
            return Drained.TAKEN
        depth = self._work(permit, lease, until)
        if not lease.is_held:
            # Not ours to release any more, and whoever has it needs no permit.
            return Drained.GAVE_UP
        is_late = self.clock.monotonic() >= until
        # Released before it is handed over, or the next holder would find it taken.
        lease.release()
        if not is_late:
            return Drained.GAVE_UP
        self.send([Permit(slot=permit.slot, depth=depth, tasks=permit.tasks)])
        return Drained.HANDED_OVER

    def _work(self, permit: Permit, lease: SlotLease, until: float) -> int:
        """Run the tasks to their end and return the depth that they know of."""
        listening = Listening(
            rule=lambda depth: self.fleet.tasks if depth else 0,
            cap=lambda: self.fleet.allowance(permit.slot) if lease.is_held else 0,
            least=0,
            on_queue_empty=push,
            on_work_detected=self.look,
            depth_every=DEPTH_EVERY,
            first_depth=max(1, permit.depth),
            fleet=max(1, permit.tasks),
            first_queue=permit.slot,
            visibility=self.visibility,
            until=until,
        )
        with Renewals(self.clock) as renewals, renewals.keep_leased(lease):
            with QueueListener(self.sources, self.handle, listening, clock=self.clock) as listener:
                listener.subscribe(Telling())
                # One looks first: a permit that comes for nothing costs one empty receive, not one a task.
                listener.start(1)
                listener.wait()
            return listener.query_state().depth
