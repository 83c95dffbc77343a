"""The app's one timer: everything that a lost message would have started, from two requests when nothing waits."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from shared.clock import Clock
from shared.errors import SluiceError
from shared.gate.gate_tick import GateTick
from shared.pending import PendingTable, Pointer
from shared.pipeline.accept import JOB_POINTER
from shared.pipeline.finish_call import FINISH_POINTER
from shared.pipeline.orphans import Orphans
from shared.pipeline.outbox import OUTBOX_POINTER, Outbox
from shared.pipeline.sweep import Sweep
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import place, told
from shared.usage.meter import Cause, because

#: Minutes between two looks at the hosts' poison queues: what lies there has failed for good, so it may wait.
POISON_EVERY: Final = 15
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
            now = self.clock.now()
            # One range for both questions: what is due, and whether a job is open, whose pointer is due later.
            known = list(self.pending.due(now + self.ahead))
            due = [pointer for pointer in known if pointer.due <= now]
            steps: Sequence[Callable[[], object]] = (
                lambda: self.gates.run(due),
                lambda: self.sweep.follow(due),
                lambda: self._tell(due),
                self._drain,
                lambda: self.orphans.run(due),
                lambda: self._tune(known),
            )
            failures = [error for step in steps if (error := _tried(step))]
        if failures:
            raise failures[0]

    def _tell(self, due: Iterable[Pointer]) -> None:
        for pointer in due:
            if pointer.kind == OUTBOX_POINTER:
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


def _tried(step: Callable[[], object]) -> SluiceError | None:
    try:
        step()
    except SluiceError as error:
        tell(events.TICK_FAILED, error=told(error), at=place(error))
        return error
    return None
