"""The pipeline's part of the tick: follows the pointers that are due and makes good what was lost on the way.

Any message may be lost, whole queues even: the ledger knows what is missing, and whoever is late is given work again.
Its cost follows the jobs that are not finished; a finished one loses its pointer and is never looked at again.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from shared.clock import Clock
from shared.ledger.decisions import forsaken, may_dispatch, nudged
from shared.ledger.forecast import is_overdue, next_look, overdue
from shared.ledger.ledger import Ledger, commit, counting
from shared.ledger.records import FINISHED, Job, JobState
from shared.pending import PendingTable, Pointer
from shared.pipeline.accept import JOB_POINTER
from shared.pipeline.deadline import warn
from shared.pipeline.dispatch import Dispatcher
from shared.pipeline.finish_call import FINISH_POINTER, FinishCall
from shared.pipeline.retention import RETENTION_POINTER, Retention
from shared.pipeline.start import DISPATCH_POINTER, Starter
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import place, told

#: Nothing happens to these by itself any more.
_SETTLED: Final = FINISHED | {JobState.BURIED}
#: The kinds of pointers that lead here.
MINE: Final = frozenset({JOB_POINTER, FINISH_POINTER, DISPATCH_POINTER, RETENTION_POINTER})
_WAITING: Final = frozenset({JobState.PLANNING, JobState.HELD})


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep did."""

    looked_at: int = 0
    put_again: int = 0
    failed: int = 0

    def __add__(self, other: "Swept") -> "Swept":
        return Swept(self.looked_at + other.looked_at, self.put_again + other.put_again, self.failed + other.failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What the tick needs to look after jobs."""

    ledger: Ledger
    pending: PendingTable
    starter: Starter
    dispatcher: Dispatcher
    finish: FinishCall
    retention: Retention
    clock: Clock
    overdue: timedelta

    def follow(self, pointers: Iterable[Pointer], until: float = math.inf) -> Swept:
        """Follow every pointer of the pipeline's kinds; one that fails stays and does not keep the others waiting.

        `until`: the moment, by the clock that only moves forward, after which no further one is taken; they stay due.
        """
        due = takewhile(lambda _: self.clock.monotonic() < until, self._mine(pointers))
        return sum((self._tried(one, until) for one in due), Swept())

    def _mine(self, pointers: Iterable[Pointer]) -> Iterator[Pointer]:
        return (one for one in pointers if one.kind in MINE)

    def _tried(self, pointer: Pointer, until: float) -> Swept:
        try:
            return Swept(looked_at=1, put_again=self._follow(pointer, until))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one job, the others are looked after
            tell(events.JOB_NEGLECTED, pointer=pointer.id, error=told(error), at=place(error))
            return Swept(looked_at=1, failed=1)

    def _follow(self, pointer: Pointer, until: float) -> int:
        if pointer.kind == FINISH_POINTER:
            self.finish.repeat(pointer, self.ledger.read(pointer.id.rpartition(":")[0]))
            return 0
        if pointer.kind == RETENTION_POINTER:
            self.retention.follow(pointer)
            return 0
        if pointer.kind == DISPATCH_POINTER:
            self.starter.go_on(pointer.id, until)
            self.pending.remove(pointer)
            return 0
        job = self.ledger.read(pointer.id)
        if job is not None and job.state is not JobState.BURIED:
            job = warn(self.ledger, job, self.clock.now())
        if job is not None and job.state in FINISHED:
            self.retention.begin(job)
        if job is None or job.state in _SETTLED:
            # A row that was to follow the pointer never came, or needs nobody any more.
            self.pending.remove(pointer)
            return 0
        with counting():
            put = self._look_after(job, self.clock.now(), until)
        # The new pointer before the old one goes: a job that nobody would look after must not exist.
        self.pending.add(Pointer(JOB_POINTER, next_look(job, self.clock.now(), self.overdue), job.job))
        self.pending.remove(pointer)
        return put

    def _look_after(self, job: Job, now: datetime, until: float) -> int:
        if job.deadline is not None and job.state is not JobState.HELD and not is_overdue(job, now, self.overdue):
            # Only the deadline made this look come so soon: whoever works on the job may still be about to go on.
            return 0
        if job.plan is None:
            self._look_for_plan(job, now)
            return 0
        if job.state in _WAITING:
            # Its submission or its held row may be lost, or whoever started it ended; all may be well, too.
            self.starter.start(job, until=until)
            return 0
        if job.state is JobState.FINISHING:
            self.finish.send(job.job, job.revision)
            return 0
        return self._put_again(job, now, until) if is_overdue(job, now, self.overdue) else 0

    def _look_for_plan(self, job: Job, now: datetime) -> None:
        if not is_overdue(job, now, self.overdue):
            return
        # Only its publisher has the transactions. Whoever accepts the submission after all takes the problem away.
        tell(events.JOB_PLANLESS, job=job.job, silent_seconds=round((now - job.accepted_at).total_seconds()))
        if (noted := forsaken(job)) is not job and commit(self.ledger, noted) is None:
            tell(events.JOB_MOVED, job=job.job)

    def _put_again(self, job: Job, now: datetime, until: float) -> int:
        ended = {row.chunk for row in self.ledger.rows(job.job)}
        put = self.dispatcher.put_again(job, overdue(job, ended, now, self.overdue))
        silent = now - (job.progressed_at or job.accepted_at)
        tell(events.JOB_OVERDUE, job=job.job, chunks=put, silent_seconds=round(silent.total_seconds()))
        noted = commit(self.ledger, nudged(job, now))
        if noted is None:
            # Somebody made progress meanwhile, which says more than our note would have.
            tell(events.JOB_MOVED, job=job.job)
        elif may_dispatch(noted):
            self.starter.start(noted, until=until)
        return put
