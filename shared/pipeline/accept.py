"""The accept stage: turns a dropped message into a planned job, dispatched or held behind its gate.

Every step may be repeated. The job's row is inserted once, and its plan depends only on its payload and the settings. The
ids that count are those whose reservation was recorded first. After a crash, the next delivery continues.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from typing import Final, Protocol

from shared.clock import Clock
from shared.errors import ContentionError
from shared.gate import Reading
from shared.grammar import room_job
from shared.ledger import (
    Collision,
    Job,
    JobState,
    Ledger,
    change,
    counting,
    judge,
    note_gate_passed,
    record_plan,
)
from shared.memory import Memory
from shared.payload import (
    WORK,
    Envelope,
    Intake,
    Limits,
    Payload,
    PayloadStores,
    Submission,
    fingerprint,
    fingerprint_before,
    of_plan,
    of_submission,
    read_submission,
)
from shared.pending import PendingTable, Pointer
from shared.pipeline.chunk_size import ChunkSizes
from shared.pipeline.plan import PlanStore, plan_of
from shared.pipeline.start import leave_to_gate, point_to_start
from shared.refusals import Reason, refuse
from shared.telemetry import SILENT, Piece, Telemetry

_UNDECIDED: Final = frozenset({JobState.PLANNING, JobState.HELD})
_UNFINISHED: Final = _UNDECIDED | {JobState.DISPATCHING}


class Accepted(Enum):
    """How the accept stage left a submission."""

    #: Its chunks are being dispatched.
    DISPATCHED = "dispatched"
    #: It waits behind its gate.
    HELD = "held"
    #: The same submission was accepted before and is past its gate.
    DUPLICATE = "duplicate"


class Ids(Protocol):
    """The source of a job's ids."""

    def next_ids(self, count: int) -> range:
        """Return a block of adjoining ids."""
        ...


class JobGates(Protocol):
    """The gates, as planning a job reads them."""

    def reading(self, gate: str) -> Reading:
        """Return the gate's epoch and whether it is open."""
        ...


class Start(Protocol):
    """Dispatches a planned job, or holds it behind its gate."""

    def __call__(self, job: Job, *, is_new: bool, until: float | None) -> bool:
        """Dispatch the job. False: it waits behind its gate."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The accept stage. One per process."""

    ledger: Ledger
    stores: PayloadStores
    plans: PlanStore
    ids: Ids
    gates: JobGates
    start: Start
    pending: PendingTable
    clock: Clock
    #: The workloads of this installation, each with the fields that it adds up.
    sums: Mapping[str, Collection[str]]
    limits: Limits
    sizes: ChunkSizes
    #: How long a job may be silent before the tick repairs it.
    overdue: timedelta
    telemetry: Telemetry = SILENT
    memory: Memory = field(default_factory=lambda: Memory(WORK))

    def accept(
        self, envelope: Envelope, message_id: str, room: str = "", *, again: bool = False, until: float | None = None
    ) -> Accepted:
        """Accept one submission. A RefusedError is the publisher's to correct. Every other error may be retried.

        `room`: the room of the message's queue, which identifies the sender. `again`: this message was delivered
        before, so this call also completes an unfinished dispatch. `until`: no further step of the dispatch after this
        moment.
        """
        published = read_submission(envelope, message_id, self.limits)
        self._check(published)
        # From here on the job has its internal id; only its room's container knows it by the publisher's name.
        submission = replace(published, job=room_job(room, published.job))
        with counting(), self.telemetry.span(Piece.ACCEPT, submission.trace, job=submission.job, gate=submission.gate):
            taken = self._take(room, published, submission, again=again)
            if taken is None:
                return Accepted.DUPLICATE
            planned_job, is_mine, pointer = taken
            if self.start(planned_job, is_new=is_mine, until=until):
                return Accepted.DISPATCHED
            leave_to_gate(self.pending, planned_job, pointer, self.clock.now())
            return Accepted.HELD

    def _take(
        self, room: str, published: Submission, submission: Submission, *, again: bool
    ) -> tuple[Job, bool, Pointer] | None:
        """Return the planned job, whether this call recorded the plan, and this call's pointer to the job.

        None: the job was past this stage before.
        """
        with self.memory.hold(of_submission(published.content, self.sizes.least, self.limits)) as held:
            payload = Intake(room, self.stores, self.limits, self.sizes.least).take(published)
            held.keep(of_plan(len(payload.index.frames), payload.index.items, self.sizes.least, self.limits))
            job, is_new, pointer = self._insert(submission, payload)
            is_over = not is_new and job.state not in (_UNFINISHED if again else _UNDECIDED)
            return None if is_over else (*self._record_plan(job, submission, payload), pointer)

    def _check(self, submission: Submission) -> None:
        """Refuse a submission that could never balance: no workload would add up its transactions or its sums."""
        if submission.workload not in self.sums:
            known = ", ".join(sorted(self.sums))
            raise refuse(Reason.UNKNOWN_WORKLOAD, f"the workload is {submission.workload!r}, known are: {known}")
        proven = self.sums[submission.workload]
        if strange := sorted(set(submission.declared.sums) - set(proven)):
            found = (
                f"declared are {', '.join(strange)[:200]}; {submission.workload} adds up: {', '.join(proven) or 'none'}"
            )
            raise refuse(Reason.UNKNOWN_SUM, found)

    def _insert(self, submission: Submission, payload: Payload) -> tuple[Job, bool, Pointer]:
        now, content_hash = self.clock.now(), fingerprint(submission, payload)
        new = Job.accept(submission, content_hash, now, self.telemetry.current())
        # Before the row that it points to: no job may exist that the tick cannot find.
        pointer = self.pending.add(point_to_start(new.job, new.deadline, now, self.overdue))
        job, is_new = self.ledger.insert(new)
        if not is_new:
            judged = judge(job, content_hash, fingerprint_before(submission, payload))
            if judged.collision is Collision.CONFLICT:
                raise refuse(Reason.CONFLICT, judged.reason)
        return job, is_new, pointer

    def _record_plan(self, job: Job, submission: Submission, payload: Payload) -> tuple[Job, bool]:
        if job.plan is not None:
            return job, False
        size = self.sizes.of(submission.workload, payload.index.items)
        plan = plan_of(submission.job, submission.workload, payload, size, self.limits)
        stored = self.plans.put(plan)
        # When two processes accept the same submission, the slower one leaves a gap. The sequence's log explains it.
        first_id = self.ids.next_ids(plan.items).start
        gate = None if job.gate is None else self.gates.reading(job.gate)
        chunks, is_mine = len(plan.chunks), False

        def decide(found: Job) -> Job:
            nonlocal is_mine
            planned = record_plan(found, stored, chunks, plan.items, first_id)
            is_mine = planned is not found
            # One write records the plan and how the gate was read: that the job may start, or that it waits.
            return planned if planned is found or gate is None else note_gate_passed(planned, gate)

        written = change(self.ledger, job.job, decide, tried="record the plan", known=job)
        if written is None:
            raise ContentionError(f"could not record the plan: job {job.job!r} is gone; its submission is retried")
        return written, is_mine
