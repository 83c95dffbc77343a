"""Runs the tasks of a permit's slot on one instance, until the queues are empty or the time is up.

    lease the slot -> one task receives -> if it finds work, the others start -> at an empty receive all end
    -> release the slot

The sender of a put lists the held slots and sends permits only for the others. A message may be put after the last
receive of a drain and before the release of its slot. That message would wake no instance. So the drain of slot 0, the
first slot that any sender wakes, peeks into the queues once more after its release.

A worker process: follows permits from the bus, as the function `drain_work` does, without a Functions host.

Each lane follows one permit at a time, on a connection of its own, and its lock is renewed until the drain ends. While the
bus does not answer, one lane at a time checks the queues and gives this process the permits that a sender would have sent.
The rests between two checks grow while the queues are empty, up to a second.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from queue import Empty, SimpleQueue
from random import uniform
from threading import Event, Lock, Thread
from typing import Final

import msgspec

from shared.azure import BusReceiver, Connections
from shared.clock import Clock
from shared.dequeue.listener import QueueListener
from shared.dequeue.permits import SlotLease, SlotPlan, Slots, TopUp, Wakes
from shared.dequeue.receiving import AHEAD, HandlingTime, OwnPuts, UrgentLane
from shared.dequeue.task import BackOff, Listening, Telling, push_until_fed
from shared.dequeue.work_queue import Renewals, WorkSource
from shared.errors import StorageUnavailableError
from shared.messages import Delivery, FeedCall, Permit, decode_permit
from shared.signals import SendPermits
from shared.telemetry import describe_error, events, tell
from shared.topology import GUARD, LOOKS_EVERY, PERMITS

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


def stays_for(deliveries: int) -> float:
    """Return the seconds for which a drain looks again. A permit that was delivered before had a holder that died.

    Its slot is still leased, and its messages are still hidden. Both are free by the end of that time.
    """
    return GUARD.total_seconds() if deliveries > 1 else 0.0


def goes_on(drained: Drained, since: float, stays: float) -> bool:
    """Check whether a drain looks again: what a dead process had comes free by the end of the time that it stays."""
    return since < stays and drained in {Drained.GAVE_UP, Drained.TAKEN}


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
    #: Taken before all others.
    own: OwnPuts | None = None
    #: Called when a task has found work, before it begins: the decision behind the cap may be old.
    look: Callable[[], object] = lambda: None
    #: Follows a feed call, with the number of its delivery.
    feed: Callable[[int], object] = lambda _deliveries: None
    #: Says when a permit goes for a message that hides. None: the tick's permits find it.
    wakes: Wakes | None = None
    #: The chunks that wait for their turn, as this process knows it. A slot does not end while there are some.
    waiting: Callable[[], int] = lambda: 0
    patience: float = PATIENCE
    visibility: int = int(GUARD.total_seconds())
    pause: Callable[[float], object] = time.sleep
    #: Lasts from permit to permit. A new process takes one message per task first. All tasks of a fleet begin together:
    #: by their shares they would take all that there is, before a process knows how long a message takes.
    pace: HandlingTime = field(default_factory=lambda: HandlingTime(assumed=AHEAD))
    #: Once it is set, each task ends after its message, and the slot is handed over.
    stop: Event = field(default_factory=Event)

    def on_signal(self, body: bytes, deliveries: int = 1) -> Drained:
        """Follow one permit. Never raises: the bus would redeliver a failed permit at once, ten times."""
        permit = decode_permit(body)
        if isinstance(permit, FeedCall):
            self.feed(deliveries)
            return Drained.GAVE_UP
        if permit is None:
            tell(events.PERMIT_REFUSED, bytes=len(body))
            return Drained.REFUSED
        return self.follow(permit, stays_for(deliveries))

    def follow(self, permit: Permit, stays: float = 0.0) -> Drained:
        """Follow a permit that was read. Never raises."""
        try:
            drained = self.run(permit, stays)
        except StorageUnavailableError as error:
            tell(events.PERMIT_UNANSWERED, slot=permit.slot, error=describe_error(error))
            return Drained.UNANSWERED
        tell(events.PERMIT_FOLLOWED, slot=permit.slot, outcome=drained.value)
        return drained

    def run(self, permit: Permit, stays: float = 0.0) -> Drained:
        """Run the tasks of the permit's slot while there is work, and look again for so many seconds."""
        began = self.clock.monotonic()
        until = began + self.patience
        while True:
            drained = self._drain(permit, until)
            if goes_on(drained, self.clock.monotonic() - began, stays) and not self.stop.is_set():
                self.pause(LOOKS_EVERY)
                continue
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

    def _wake_in(self, slot: int, seconds: float) -> None:
        """Send a permit for the moment at which a message comes again: the tasks of today may have ended by then."""
        if self.wakes is not None and (delay := self.wakes.delay(seconds)) is not None:
            self.send([Permit(slot=slot, depth=1, tasks=1)], delay)

    def _work(self, permit: Permit, lease: SlotLease, until: float) -> int:
        """Run the tasks to their end. Return the depth that they know last."""
        listening = Listening(
            rule=lambda depth: self.fleet.tasks if depth else 0,
            cap=lambda: self.fleet.allowance(permit.slot) if lease.is_held and not self.stop.is_set() else 0,
            least=0,
            on_queue_empty=push_until_fed(self.waiting),
            on_work_detected=self.look,
            on_hidden=partial(self._wake_in, permit.slot),
            depth_every=DEPTH_EVERY,
            first_depth=max(1, permit.depth),
            fleet=max(1, permit.tasks),
            first_queue=permit.slot,
            visibility=self.visibility,
            until=until,
        )
        with Renewals(self.clock) as renewals, renewals.keep_leased(lease):
            with QueueListener(
                self.sources,
                self.handle,
                listening,
                urgent=self.urgent,
                own=self.own,
                pace=self.pace,
                clock=self.clock,
            ) as listener:
                listener.subscribe(Telling())
                # One task receives first: a needless permit costs one empty receive, not one per task.
                listener.start(1)
                listener.wait()
            return listener.query_state().depth


#: Seconds that one receive waits. A lane ends only between two receives.
RECEIVE_SECONDS: Final = 1.0
#: Seconds for which a lane checks the queues until it turns to the bus again.
AGAIN_AFTER: Final = 5.0
#: Seconds for which the lock of a permit is renewed: a drain hands over before.
LOCK_SECONDS: Final = 300.0
#: The rests between two checks.
_REST: Final = BackOff()


class PermitWorker:
    """The lanes of one worker process. `run` returns after the drain's `stop` was set and every task has ended."""

    def __init__(self, connections: Connections, drain: Drain, *, lanes: int) -> None:
        self._connections, self._drain, self._lanes, self._stop = connections, drain, lanes, drain.stop
        self._own: SimpleQueue[Permit] = SimpleQueue()
        self._top_up = TopUp(slots=drain.slots, fleet=drain.fleet, send=self._give)
        self._checking, self._empties = Lock(), 0
        self._noting, self._is_away = Lock(), False

    def run(self) -> None:
        """Follow permits until `stop` is set."""
        threads = [Thread(target=self._run, name=f"lane-{number}", daemon=True) for number in range(self._lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow_bus()
            except Exception as error:  # noqa: BLE001 - a lane that ended would leave its permits to others for good
                self._note_bus(describe_error(error))
                self._check_for(AGAIN_AFTER)

    def _follow_bus(self) -> None:
        # A client of the bus serves one thread.
        with BusReceiver(self._connections, PERMITS, locked_for=LOCK_SECONDS) as receiver:
            while not self._stop.is_set():
                messages = receiver.receive(1, RECEIVE_SECONDS)
                self._note_bus("")
                for message in messages:
                    self._drain.on_signal(message.body, message.deliveries)
                receiver.complete()

    def _note_bus(self, problem: str) -> None:
        # All lanes lose the bus at once, and one line is enough.
        with self._noting:
            was_away, self._is_away = self._is_away, bool(problem)
        if problem and not was_away:
            tell(events.WORKER_POLLING, reason=problem)

    def _check_for(self, seconds: float) -> None:
        until = self._drain.clock.monotonic() + seconds
        while not self._stop.is_set() and self._drain.clock.monotonic() < until:
            try:
                self._drain.follow(self._own.get_nowait())
            except Empty:
                self._check()

    def _check(self) -> None:
        """Give this process the permits that are missing, or rest. One lane does it, and the others rest."""
        if self._checking.acquire(blocking=False):
            try:
                self._empties = 0 if self._find() else self._empties + 1
            except StorageUnavailableError as error:
                self._empties += 1
                tell(events.RECEIVE_FAILED, error=describe_error(error))
            finally:
                self._checking.release()
        if self._empties:
            self._stop.wait(_REST.delay(self._empties, uniform))

    def _find(self) -> bool:
        return self._drain.peek() > 0 and self._top_up.run(self._drain.depth()) > 0

    def _give(self, permits: Sequence[Permit]) -> int:
        for permit in permits[: self._lanes]:
            self._own.put(permit)
        return len(permits)
