"""The Process Initiator: from a dropped message to a planned job, on its way or held behind its gate.

Every step may be repeated: the job's row is inserted once, its plan depends on nothing but its payload, and the ids
that count are those whose reservation was recorded first. Whoever dies in between is followed by the next delivery.
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
    next_look,
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
from shared.pending import JOB_POINTER, PendingTable, Pointer
from shared.pipeline.plan import PlanStore, plan_of
from shared.refusals import Reason, refuse
from shared.telemetry import SILENT, Piece, Telemetry

_UNDECIDED: Final = frozenset({JobState.PLANNING, JobState.HELD})
_UNFINISHED: Final = _UNDECIDED | {JobState.DISPATCHING}


class Accepted(Enum):
    """What became of a submission."""

    #: Its chunks are on their way.
    DISPATCHED = "dispatched"
    #: It waits behind its gate.
    HELD = "held"
    #: The same submission was accepted before and is past its gate.
    DUPLICATE = "duplicate"


class Ids(Protocol):
    """Where a job's ids come from."""

    def next_ids(self, count: int) -> range:
        """Return a block of adjoining ids."""
        ...


class JobGates(Protocol):
    """The gates, as far as a job that is planned meets them."""

    def reading(self, gate: str) -> Reading:
        """Return the gate's epoch and whether it is open."""
        ...


class Start(Protocol):
    """Puts a planned job on its way, or behind its gate."""

    def __call__(self, job: Job, *, is_new: bool) -> bool:
        """Dispatch it; False: it waits behind its gate."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What accepting needs; one for each process."""

    ledger: Ledger
    stores: PayloadStores
    plans: PlanStore
    ids: Ids
    gates: JobGates
    start: Start
    pending: PendingTable
    clock: Clock
    #: The workloads of this installation, each with the fields whose sums it proves.
    sums: Mapping[str, Collection[str]]
    limits: Limits
    chunk_items: int
    #: How long a job may be silent before the tick looks after it.
    overdue: timedelta
    telemetry: Telemetry = SILENT
    memory: Memory = field(default_factory=lambda: Memory(WORK))

    def accept(self, envelope: Envelope, message_id: str, room: str = "", *, again: bool = False) -> Accepted:
        """Accept one submission; RefusedError is for the publisher, everything else may be tried again.

        `room`: that of the queue which brought it, and so who sent it. `again`: this message was delivered before, so
        what its dispatch left undone is this call's to do.
        """
        said = read_submission(envelope, message_id, self.limits)
        self._check(said)
        # From here on the job is called as it is inside; only its publisher's own container knows it by the other name.
        submission = replace(said, job=room_job(room, said.job))
        with counting(), self.telemetry.span(Piece.ACCEPT, submission.trace, job=submission.job, gate=submission.gate):
            taken = self._take(room, said, submission, again=again)
            if taken is None:
                return Accepted.DUPLICATE
            planned_job, is_mine = taken
            return Accepted.DISPATCHED if self.start(planned_job, is_new=is_mine) else Accepted.HELD

    def _take(self, room: str, said: Submission, submission: Submission, *, again: bool) -> tuple[Job, bool] | None:
        """Return the job with its plan, and whether the plan is this call's; None where the job has gone on before."""
        with self.memory.hold(of_submission(said.content, self.limits)) as held:
            payload = Intake(room, self.stores, self.limits).take(said)
            held.keep(of_plan(len(payload.index.frames)))
            job, is_new = self._insert(submission, payload)
            is_over = not is_new and job.state not in (_UNFINISHED if again else _UNDECIDED)
            return None if is_over else self._record_plan(job, submission, payload)

    def _check(self, submission: Submission) -> None:
        """Refuse what could never be balanced: nobody would add up its transactions or its sums."""
        if submission.workload not in self.sums:
            known = ", ".join(sorted(self.sums))
            raise refuse(Reason.UNKNOWN_WORKLOAD, f"the workload is {submission.workload!r}, known are: {known}")
        proven = self.sums[submission.workload]
        if strange := sorted(set(submission.declared.sums) - set(proven)):
            found = (
                f"declared are {', '.join(strange)[:200]}; {submission.workload} adds up: {', '.join(proven) or 'none'}"
            )
            raise refuse(Reason.UNKNOWN_SUM, found)

    def _insert(self, submission: Submission, payload: Payload) -> tuple[Job, bool]:
        now, content_hash = self.clock.now(), fingerprint(submission, payload)
        new = Job.accept(submission, content_hash, now, self.telemetry.current())
        # Before the row that it points to: a job that nobody would look after must not exist.
        self.pending.add(Pointer(JOB_POINTER, next_look(new, now, self.overdue), new.job))
        job, is_new = self.ledger.insert(new)
        if not is_new:
            judged = judge(job, content_hash, fingerprint_before(submission, payload))
            if judged.collision is Collision.CONFLICT:
                raise refuse(Reason.CONFLICT, judged.reason)
        return job, is_new

    def _record_plan(self, job: Job, submission: Submission, payload: Payload) -> tuple[Job, bool]:
        if job.plan is not None:
            return job, False
        plan = plan_of(submission.job, submission.workload, payload, self.chunk_items, self.limits)
        stored = self.plans.put(plan)
        # Of two that accept the same submission the slower one leaves a gap, which the sequence's log explains.
        first_id = self.ids.next_ids(plan.items).start
        gate = None if job.gate is None else self.gates.reading(job.gate)
        chunks, is_mine = len(plan.chunks), False

        def decide(found: Job) -> Job:
            nonlocal is_mine
            made = record_plan(found, stored, chunks, plan.items, first_id)
            is_mine = made is not found
            # The note that it may start, or that it waits, is in the row together with its plan: no write of its own.
            return made if made is found or gate is None else note_gate_passed(made, gate)

        written = change(self.ledger, job.job, decide, tried="record the plan", known=job)
        if written is None:
            raise ContentionError(f"could not record the plan: job {job.job!r} is gone; its submission is tried again")
        return written, is_mine
