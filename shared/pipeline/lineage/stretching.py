"""Takes the stretches of growing jobs, in their order: plans each, adds it to its job, and puts its chunks if no other process does.

The blobs are the log, and a message only says that there may be a next one. So any number of processes may follow a job at
once: of two that take the same stretch, one writes it. A stretch that cannot be taken is a problem in the job's row, and
stops none of the chunks before it. The next message, or the tick, looks again.

The order: plan, ids, then the row of the stretch and the job's row in one transaction, then chunks. After a crash, the next
message takes the stretch again, or dispatches what lies above the cursor.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from shared.clock import Clock
from shared.errors import ContentionError, RefusedError
from shared.grammar import name_of, room_of
from shared.ledger import (
    Job,
    JobState,
    Ledger,
    Planned,
    Written,
    change,
    end_growth,
    find_last_step,
    may_take,
    refuse_stretch,
    stop,
    take_stretch,
    was_paused,
)
from shared.memory import Memory
from shared.payload import (
    ANY_VERSION,
    WORK,
    Declared,
    FrameIndex,
    Limits,
    Payload,
    PayloadStores,
    Ranges,
    ReadStretch,
    StoredBlob,
    StretchStore,
    check_size,
    of_plan,
    read_cut,
)
from shared.pending import JOB_POINTER, OUTBOX_POINTER, PendingTable, Pointer
from shared.pipeline.dispatch import FinishCall
from shared.pipeline.finish import event_of
from shared.pipeline.halts import GRACE, Halts
from shared.pipeline.lineage.ranging import RangeCall
from shared.pipeline.plan import ChunkSizes, PlanStore, plan_of
from shared.pipeline.start import Ids, Starter
from shared.refusals import Reason, refuse
from shared.telemetry import events, tell

#: Stands for who stopped a job that no person did.
BY_RETENTION: Final = "retention"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretching:
    """Follows growing jobs. One per process."""

    ledger: Ledger
    stores: PayloadStores
    plans: PlanStore
    ids: Ids
    sizes: ChunkSizes
    #: The fields that each workload adds up.
    sums: Mapping[str, Collection[str]]
    limits: Limits
    starter: Starter
    ranges: RangeCall
    finish: FinishCall
    halts: Halts
    pending: PendingTable
    clock: Clock
    #: How long a job may wait for its next stretch before it is said, and before it is ended.
    overdue: timedelta
    retention: timedelta
    memory: Memory = field(default_factory=lambda: Memory(WORK))

    def follow(self, job: Job, until: float | None) -> Job:
        """Take the stretches that are there, up to the end. Return the job's row as it was seen last.

        A job without an ETag is one whose row may have gone on.
        """
        while may_take(job):
            if until is not None and self.clock.monotonic() >= until:
                self.starter.leave_to_tick(job.job)
                return job
            try:
                grown = self._take_next(job, until)
            except RefusedError as refusal:
                return self._refuse(job, refusal)
            if grown is None:
                return job
            job = grown
        return job

    def go_on(self, job: Job, until: float | None) -> None:
        """Go on at once with a job that was resumed, or whose stretches took too long."""
        grown = self.follow(job, until)
        # While it was paused, no range called a later one.
        if grown.ranges is not None and was_paused(grown):
            self.ranges.begin(grown, is_new=False)

    def look(self, job: Job, until: float) -> Job:
        """Look for the next stretch of a job whose message may be lost. Say if none came for long, and end a job left alone."""
        grown = self.follow(job, until)
        silent = self.clock.now() - find_last_step(grown)
        if grown.stretches != job.stretches or not may_take(grown) or silent < self.overdue:
            return grown
        if silent >= self.retention:
            return self._stop(grown)
        if grown.ranges is not None:
            was_repeated = grown.nudged_at is not None and self.clock.now() - grown.nudged_at < self.overdue
            return grown if was_repeated else self.ranges.repeat(grown)
        if grown.ended_chunks < grown.chunks or grown.problem:
            return grown
        why = (
            f"no stretch came behind number {grown.stretches - 1}, and all chunks have ended: send the rest by the same "
            f"command, or end it: sluice jobs stop {grown.job}"
        )
        noted = self._note(grown, why)
        tell(events.JOB_UNFED, job=grown.job, stretches=grown.stretches, silent_seconds=round(silent.total_seconds()))
        return noted

    def _take_next(self, job: Job, until: float | None) -> Job | None:
        """Take the next stretch, or the end. None: it is not there."""
        if job.ranges is not None:
            return self._take_range(job, job.ranges, until)
        store = StretchStore(self.stores.container_of(room_of(job.job)), self.limits)
        found = store.read(name_of(job.job), job.stretches)
        if found is None:
            return None
        if found.previous != job.chain:
            raise refuse(
                Reason.INDEX_MISMATCH,
                f"stretch {found.number} follows {found.previous[:70]!r}, taken is {job.chain!r}: two programs write this "
                "job, or one of its blobs was written again",
            )
        if found.index is None:
            return self._end(job, found.previous, found.end or Declared())
        return self._add(job, found, found.index, until)

    def _take_range(self, job: Job, ranges: Ranges, until: float | None) -> Job | None:
        chain = job.chain or ""
        if job.stretches == ranges.count:
            return self._end(job, chain, Declared())
        content = self.ranges.cuts.find(job.job, job.stretches)
        if content is None:
            return None
        found = read_cut(content, job.job, job.stretches, chain)
        if found.index is None:
            return self._write(job, Planned(found.number, chain, found.sha256, None, 0, 0, 0), until)
        return self._add(job, found, found.index, until)

    def _add(self, job: Job, found: ReadStretch, index: FrameIndex, until: float | None) -> Job:
        self.limits.check_growth(found.number, job.items + index.items)
        blob = StoredBlob(found.blob, ANY_VERSION, index.stored)
        if job.ranges is None:
            blob = check_size(blob, self.stores.of_room(room_of(job.job)).find)
        with self.memory.hold(of_plan(len(index.frames), index.items, self.sizes.least, self.limits)):
            payload = Payload(index, found.codec, blob, None, found.text, is_kept=job.ranges is not None)
            size = self.sizes.of(job.workload, job.items + index.items)
            plan = plan_of(job.job, job.workload, payload, size, self.limits)
            stored = self.plans.put(plan)
        first_id = self.ids.next_ids(plan.items).start
        place = found.number, found.previous, found.sha256
        return self._write(job, Planned(*place, stored, len(plan.chunks), plan.items, first_id), until)

    def _write(self, job: Job, planned: Planned, until: float | None) -> Job:
        is_to_be_put = False

        def decide(current: Job) -> Job | Written:
            nonlocal is_to_be_put
            taken = take_stretch(current, planned)
            # Of the row of this very write: another process may dispatch what was there before.
            is_to_be_put = taken is not None and taken.is_to_be_put
            return current if taken is None else Written(taken.job, [taken.row] if taken.row else [])

        grown = self._change(job, decide, f"take stretch {planned.number}")
        if not is_to_be_put:
            return grown
        self.starter.start(grown, is_new=True, until=until)
        # Its row has gone on by that.
        return replace(grown, etag="")

    def _end(self, job: Job, previous: str, end: Declared) -> Job:
        self._check_end(job, end)
        # Before the state that it points to: the last chunk may have ended.
        pointer = self.finish.point(job.job, job.revision)
        ended = self._change(job, lambda found: end_growth(found, previous, end.items, end.sums), "end its growth")
        if ended.state is JobState.FINISHING:
            self.finish.send(ended)
        self.finish.forget_pointer(pointer)
        return ended

    def _check_end(self, job: Job, end: Declared) -> None:
        known = self.sums.get(job.workload, ())
        if strange := sorted(set(end.sums) - set(known)):
            raise refuse(Reason.UNKNOWN_SUM, f"the end declares {', '.join(strange)[:200]}")
        if end.items is not None and job.declared_items not in {None, end.items}:
            raise refuse(
                Reason.COUNT_MISMATCH,
                f"the end declares {end.items} transactions, the submission {job.declared_items}",
            )
        if changed := sorted(name for name, sum_ in end.sums.items() if job.declared.get(name, sum_) != sum_):
            raise refuse(
                Reason.COUNT_MISMATCH, f"the end declares another sum of {changed[0][:100]} than the submission"
            )

    def _change(self, job: Job, decide: Callable[[Job], Job | Written], tried: str) -> Job:
        written = change(self.ledger, job.job, decide, tried=tried, known=job if job.etag else None)
        if written is not None and not written.etag:
            # Proven by the row of the stretch alone: others have changed the job since.
            written = self.ledger.read(job.job)
        if written is None:
            raise ContentionError(f"could not {tried}: job {job.job!r} is gone")
        return written

    def _refuse(self, job: Job, refusal: RefusedError) -> Job:
        noted = self._note(job, f"stretch {job.stretches} is not taken: {refusal}")
        if noted.problem != job.problem:
            tell(events.STRETCH_REFUSED, job=job.job, stretch=job.stretches, reason=str(refusal.reason))
        return noted

    def _note(self, job: Job, why: str) -> Job:
        return self._change(job, lambda found: refuse_stretch(found, job.stretches, why), "note its problem")

    def _stop(self, job: Job) -> Job:
        """End a job whose publisher never came back, as a person does."""
        now, days = self.clock.now(), self.retention.days
        self.pending.add_all([Pointer(JOB_POINTER, now, job.job), Pointer(OUTBOX_POINTER, now + GRACE, job.job)])

        def decide(found: Job) -> Job | Written:
            if not may_take(found) or found.stretches != job.stretches:
                return found
            stopped = stop(found, BY_RETENTION, f"no stretch and no end came for {days} days", now)
            return Written(stopped, messages=[event_of(stopped)])

        return self.halts.change(job, decide, tried="end a job whose publisher never came back") or job
