"""The app's one timer: everything that a lost message would have started, from two requests when nothing waits."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from shared.clock import Clock
from shared.gate.gate_tick import GateTick
from shared.gate.held_work import TAKES_FOR
from shared.pending import PendingTable, Pointer
from shared.pipeline.accept import JOB_POINTER
from shared.pipeline.finish_call import FINISH_POINTER
from shared.pipeline.orphans import Orphans
from shared.pipeline.outbox import OUTBOX_POINTER, Outbox
from shared.pipeline.rooms import Rooms
from shared.pipeline.sweep import Sweep
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import place, told
from shared.trying import all_tried
from shared.usage.meter import Cause, because

#: Minutes between two looks at the hosts' poison queues: what lies there has failed for good, so it may wait.
POISON_EVERY: Final = 15
#: How long a tick begins with further entries behind gates, so that there is time for the jobs after them.
GATES_TAKE: Final = timedelta(seconds=20)
#: An instance whose clock is behind that of storage by more than this looks again, with the right time.
SLOW: Final = timedelta(seconds=5)
#: Pointers of these kinds lead to jobs that somebody may be working on.
OPEN: Final = frozenset({JOB_POINTER, FINISH_POINTER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What one tick does; may run twice, late, or side by side with another."""

    pending: PendingTable
    gates: GateTick
    sweep: Sweep
    outbox: Outbox
    orphans: Orphans
    rooms: Rooms
    #: Parks what lies on the poison queues.
    drain_poison: Callable[[], int]
    #: Decides how many tasks may run; asked only while a job is open.
    tune: Callable[[], object]
    #: How far ahead the pointer of an open job may be due.
    ahead: timedelta
    clock: Clock

    def run(self) -> None:
        """Follow everything that is due; raises the first error after everything was tried."""
        with because(Cause.SWEEP):
            all_tried(self._steps(), lambda error: tell(events.TICK_FAILED, error=told(error), at=place(error)))

    def _steps(self) -> Iterator[Callable[[], object]]:
        known: list[Pointer] = []
        due: list[Pointer] = []
        yield lambda: self._look(known, due)
        began = self.clock.monotonic()
        yield lambda: self.gates.run(due, began + GATES_TAKE.total_seconds())
        yield lambda: self.sweep.follow(due, began + TAKES_FOR.total_seconds())
        yield from (partial(self._tell, pointer) for pointer in due if pointer.kind == OUTBOX_POINTER)
        yield self._drain
        yield lambda: self.orphans.run(due)
        yield from self.rooms.steps(due)
        yield lambda: self._tune(known)

    def _look(self, known: list[Pointer], due: list[Pointer]) -> None:
        # One range for both questions: what is due, and whether a job is open, whose pointer is due later.
        limit = self.clock.now() + self.ahead
        found, told_at = self.pending.known(limit)
        # By the clock of storage, which is the same for whichever instance ticks.
        now = self.clock.of_reply(told_at)
        if now + self.ahead > limit + SLOW:
            found, _ = self.pending.known(now + self.ahead)
        known += found
        due += [pointer for pointer in known if pointer.due <= now]

    def _tell(self, pointer: Pointer) -> None:
        late = self.clock.now() - pointer.due
        tell(events.OUTBOX_LATE, job=pointer.id, late_seconds=round(late.total_seconds()))
        self.outbox.follow(pointer)

    def _tune(self, known: Iterable[Pointer]) -> None:
        if any(pointer.kind in OPEN for pointer in known):
            self.tune()

    def _drain(self) -> None:
        # By the clock and not by a count: whichever instance ticks, and however often it was restarted.
        if self.clock.now().minute % POISON_EVERY == 0:
            self.drain_poison()
