"""Puts a job's chunks on the work queues, a hundred at a time, with a cursor that only moves forward.

There is no look at the gate: whoever read it wrote into the job's row that it may start, and only that counts here.
A chunk that is put twice is worked on twice and counted once.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeAlias

from msgspec.structs import replace

from shared.clock import Clock
from shared.errors import PlanLostError, StorageUnavailableError
from shared.gate.held_work import TAKES_FOR
from shared.ledger.decisions import dispatched, may_dispatch, undispatchable
from shared.ledger.ledger import Ledger, change
from shared.ledger.records import Job, JobState
from shared.memory import Memory
from shared.payload import Limits, Reason, refuse
from shared.pipeline.messages import Chunk, encode
from shared.pipeline.plan import Plan
from shared.pipeline.plan_store import PlanStore
from shared.pipeline.throttle import MOST, Throttle
from shared.pipeline.weights import WORK, of_dispatch
from shared.retry import LOST_RACES, Retry
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import told
from shared.telemetry.spans import Piece
from shared.telemetry.telemetry import SILENT, Telemetry

#: Chunks between two notes of the cursor: what a crash puts again at most.
CURSOR_EVERY: Final = 100


#: Entered around a put of so many messages on the work queues, the first of so many in the same dispatch.
Waking: TypeAlias = Callable[[int, int], AbstractContextManager[None]]


def wake_nobody(_messages: int, _coming: int) -> AbstractContextManager[None]:
    """Let the put be found by polling."""
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """What dispatching needs; one for each process."""

    ledger: Ledger
    plans: PlanStore
    enclose: Callable[[Sequence[Chunk]], Sequence[Chunk]]
    send: Callable[[str, str], None]
    finish: Callable[[Job], None]
    clock: Clock
    work_queues: int
    #: Settlers write the same row while the job is being dispatched.
    retry: Retry = LOST_RACES
    #: How long one call goes on at most, where its caller does not say until when.
    patience: timedelta = TAKES_FOR
    #: Puts that may be in flight at most, now.
    most_puts: Callable[[], int] = lambda: MOST
    waking: Waking = wake_nobody
    telemetry: Telemetry = SILENT
    memory: Memory = field(default_factory=lambda: Memory(WORK))

    def dispatch(self, job: Job, *, again: bool = False, until: float | None = None) -> bool:
        """Put what was not put yet; False: the time was up, and somebody must go on.

        `again`: somebody else may have begun with it, and may have put chunks without noting it. `until`: the moment,
        by the clock that only moves forward, after which no further hundred is begun.
        """
        if not may_dispatch(job) or job.plan is None:
            return True
        end = self.clock.monotonic() + self.patience.total_seconds() if until is None else until
        # Chunks that have ended say the same: some of those behind the cursor may have their result already.
        with (
            self._span(job, job.chunks - job.dispatch_cursor),
            self.memory.hold(of_dispatch(job.chunks, min(job.items, job.chunks * Limits().chunk_frames_most))) as held,
        ):
            try:
                plan = self.plans.read(job.job, job.plan)
            except PlanLostError as error:
                self._pause(job, error)
                return True
            held.keep(of_dispatch(job.chunks, sum(len(chunk.frames) for chunk in plan.chunks)))
            return self._dispatch(job, plan, end, again=again or job.ended_chunks > 0)

    def _pause(self, job: Job, error: PlanLostError) -> None:
        """Leave the job to a person: no further look finds a plan that is gone."""
        is_mine = False

        def decide(found: Job) -> Job:
            nonlocal is_mine
            made = undispatchable(found, str(error))
            is_mine = made is not found
            return made

        change(self.ledger, job.job, decide, tried="pause the job", known=job, retry=self.retry)
        if is_mine:
            tell(events.JOB_PAUSED, job=job.job, revision=job.revision, reason=told(error))

    def put_again(self, job: Job, chunks: Iterable[int]) -> int:
        """Put chunks that were not heard of for too long; returns how many."""
        if job.plan is None:
            return 0
        numbers = list(chunks)
        if numbers:
            with self._span(job, len(numbers)), self.waking(len(numbers), len(numbers)):
                plan = self.plans.read(job.job, job.plan)
                # They do not follow each other in the payload, so each is read by whoever works on it.
                self._put([self._message(job, plan, number, again=True) for number in numbers], Throttle())
        return len(numbers)

    def _span(self, job: Job, chunks: int) -> AbstractContextManager[object]:
        return self.telemetry.span(Piece.DISPATCH, job.trace, job=job.job, revision=job.revision, chunks=chunks)

    def _dispatch(self, job: Job, plan: Plan, end: float, *, again: bool) -> bool:
        throttle = Throttle()
        # An empty range still has to be noted: a plan without chunks has ended.
        while True:
            batch = range(job.dispatch_cursor, min(job.dispatch_cursor + CURSOR_EVERY, len(plan.chunks)))
            with self.waking(len(batch), len(plan.chunks) - batch.start):
                messages = self.enclose([self._message(job, plan, number, again=again) for number in batch])
                throttle, again = self._put(messages, throttle), False
            job = self._note(job, batch.stop)
            if job.dispatch_cursor >= len(plan.chunks):
                if job.state is JobState.FINISHING:
                    self.finish(job)
                return True
            if self.clock.monotonic() >= end:
                return False

    def _message(self, job: Job, plan: Plan, number: int, *, again: bool) -> Chunk:
        planned = plan.message(number, job.id_base or 0, job.revision)
        return replace(planned, again=again, trace=self.telemetry.current())

    def _put(self, messages: Iterable[Chunk], throttle: Throttle) -> Throttle:
        left = list(messages)
        while left:
            throttle = throttle.within(self.most_puts())
            with ThreadPoolExecutor(throttle.limit) as pool:
                # Each in a copy of this context: requests are counted for whoever asks for them.
                put = [pool.submit(copy_context().run, self._is_put, one) for one in left]
                refused = [message for message, one in zip(left, put, strict=True) if not one.result()]
            throttle = throttle.after(put=len(left) - len(refused), refused=len(refused))
            if len(refused) == len(left):
                raise StorageUnavailableError(
                    f"could not put any of {len(left)} chunks of job {left[0].job!r} on the work queues; "
                    "the dispatch is tried again from its cursor"
                )
            # A put that was not answered may have taken effect.
            left = [replace(one, again=True) for one in refused]
        return throttle

    def _is_put(self, message: Chunk) -> bool:
        try:
            self.send(f"work-{message.chunk % self.work_queues:02}", encode(message).decode())
        except StorageUnavailableError:
            return False
        return True

    def _note(self, job: Job, cursor: int) -> Job:
        written = change(
            self.ledger,
            job.job,
            lambda found: dispatched(found, cursor, self.clock.now()),
            tried=f"note the dispatch at chunk {cursor}",
            known=job,
            retry=self.retry,
        )
        if written is None:
            raise refuse(Reason.UNKNOWN_JOB, f"job {job.job!r} went away while it was dispatched")
        return written
