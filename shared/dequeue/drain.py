"""Runs the tasks of a permit's slot on one instance, until the queues are empty or the time is up.

    lease the slot -> one task receives -> if it finds work, the others start -> at an empty receive all end
    -> release the slot

The sender of a put lists the held slots and sends permits only for the others. A message may be put after the last
receive of a drain and before the release of its slot. That message would wake no instance. So the drain of slot 0, the
first slot that any sender wakes, peeks into the queues once more after its release.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Event
from typing import Final

import msgspec

from shared.clock import Clock
from shared.dequeue.hooks import Listening, Telling, push
from shared.dequeue.listener import QueueListener
from shared.dequeue.pace import AHEAD, HandlingTime, UrgentLane
from shared.dequeue.permits import SlotLease, SlotPlan, Slots
from shared.dequeue.renewal import Renewals
from shared.dequeue.work_queue import WorkSource
from shared.errors import StorageUnavailableError
from shared.messages import Delivery
from shared.permit import Permit, decode_permit
from shared.signals import SendPermits
from shared.telemetry import describe_error, events, tell

#: Seconds after which a drain receives no more. So it hands over within four minutes of its start. The bus keeps the
#: lock of its permit for five minutes, and the host lets it run for ten.
PATIENCE: Final = 220.0
#: Seconds between two reads of the depth in a drain.
DEPTH_EVERY: Final = 10.0


class Drained(StrEnum):
    """The outcome of a drain."""

    #: It found the queues empty, or no task of its slot may run any more.
    GAVE_UP = "gave up"
    #: The time was up, or its process ends. It sent another permit for the same slot.
    HANDED_OVER = "handed over"
    #: Another instance runs this slot.
    TAKEN = "taken"
    #: No task of this slot may run now.
    BEYOND_CAP = "beyond the cap"
    #: The message was not a permit.
    REFUSED = "refused"
    #: Storage did not answer. The tick sends another permit.
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Runs drains. There is one per process."""

    sources: Sequence[WorkSource]
    handle: Callable[[Delivery], object]
    fleet: SlotPlan
    slots: Slots
    send: SendPermits
    clock: Clock
    #: Asked before the sources.
    urgent: UrgentLane | None = None
    #: Called when a task has found work, before it begins: the decision behind the cap may be old.
    look: Callable[[], object] = lambda: None
    patience: float = PATIENCE
    visibility: int = 30
    #: Lasts from permit to permit. A new process takes one message per task first. All tasks of a fleet begin together:
    #: by their shares they would take all that there is, before a process knows how long a message takes.
    pace: HandlingTime = field(default_factory=lambda: HandlingTime(assumed=AHEAD))
    #: Once it is set, each task ends after its message, and the slot is handed over.
    stop: Event = field(default_factory=Event)

    def on_signal(self, body: bytes) -> Drained:
        """Follow one permit. Never raises: the bus would redeliver a failed permit at once, ten times."""
        permit = decode_permit(body)
        if permit is None:
            tell(events.PERMIT_REFUSED, bytes=len(body))
            return Drained.REFUSED
        return self.follow(permit)

    def follow(self, permit: Permit) -> Drained:
        """Follow a permit that was read. Never raises."""
        try:
            drained = self.run(permit)
        except StorageUnavailableError as error:
            tell(events.PERMIT_UNANSWERED, slot=permit.slot, error=describe_error(error))
            return Drained.UNANSWERED
        tell(events.PERMIT_FOLLOWED, slot=permit.slot, outcome=drained.value)
        return drained

    def run(self, permit: Permit) -> Drained:
        """Run the tasks of the permit's slot while there is work."""
        until = self.clock.monotonic() + self.patience
        while True:
            drained = self._drain(permit, until)
            if drained is not Drained.GAVE_UP or permit.slot or not (waiting := self.peek()):
                return drained
            # The depth of the permit is that of messages which are done. By it, one task would take all that came since.
            permit = msgspec.structs.replace(permit, depth=waiting)

    def peek(self) -> int:
        """Return how many messages of the first queue that has any could be received now, at most 32."""
        for source in self.sources:
            if found := source.peek():
                return found
        return self.urgent.peek() if self.urgent else 0

    def depth(self) -> int:
        """Read how many messages all queues hold."""
        return sum(source.depth() for source in self.sources) + (self.urgent.depth() if self.urgent else 0)

    def _drain(self, permit: Permit, until: float) -> Drained:
        if not self.fleet.allowance(permit.slot):
            return Drained.BEYOND_CAP
        if self.stop.is_set():
            self.send([permit])
            return Drained.HANDED_OVER
        lease = self.slots.lease(permit.slot)
        if lease is None:
            return Drained.TAKEN
        depth = self._work(permit, lease, until)
        if not lease.is_held:
            # The lease may belong to another instance by now. That one needs no permit.
            return Drained.GAVE_UP
        is_late = self.clock.monotonic() >= until or self.stop.is_set()
        # Release before the permit goes out, or its receiver would find the slot taken.
        lease.release()
        if not is_late:
            return Drained.GAVE_UP
        self.send([Permit(slot=permit.slot, depth=depth, tasks=permit.tasks)])
        return Drained.HANDED_OVER

    def _work(self, permit: Permit, lease: SlotLease, until: float) -> int:
        """Run the tasks to their end. Return the depth that they know last."""
        listening = Listening(
            rule=lambda depth: self.fleet.tasks if depth else 0,
            cap=lambda: self.fleet.allowance(permit.slot) if lease.is_held and not self.stop.is_set() else 0,
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
            with QueueListener(
                self.sources, self.handle, listening, urgent=self.urgent, pace=self.pace, clock=self.clock
            ) as listener:
                listener.subscribe(Telling())
                # One task receives first: a needless permit costs one empty receive, not one per task.
                listener.start(1)
                listener.wait()
            return listener.query_state().depth
