"""The Process Initiator: from a dropped message to a planned job, held behind its gate or on its way.

Every step may be repeated: the job's row is inserted once, its plan depends on nothing but its payload, and the ids
that count are those whose reservation was recorded first. Whoever dies in between is followed by the next delivery.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import Final, Protocol

from shared.clock import Clock
from shared.errors import ContentionError
from shared.gate.decisions import must_dispatch
from shared.gate.held_work import Holding
from shared.gate.state import Reading
from shared.ledger.counting import commit, counting
from shared.ledger.decisions import Collision, held, judge, planned
from shared.ledger.forecast import next_look
from shared.ledger.ledger import Ledger
from shared.ledger.records import Job, JobState
from shared.payload import Envelope, Intake, Limits, Payload, Reason, Submission, fingerprint, refuse
from shared.payload.submission import read_submission
from shared.pending import PendingTable, Pointer
from shared.pipeline.messages import Dispatch, encode
from shared.pipeline.plan import plan_of
from shared.pipeline.plan_store import PlanStore
from shared.telemetry.spans import Piece
from shared.telemetry.telemetry import SILENT, Telemetry

SUBMISSIONS: Final = "submissions"
#: The kind of the pointers that lead to jobs which are not finished.
JOB_POINTER: Final = "job"
#: Others write the row of a job that is being accepted only where the same submission was dropped several times.
MOST_ATTEMPTS: Final = 20
_UNDECIDED: Final = frozenset({JobState.PLANNING, JobState.HELD})


class Accepted(Enum):
    """What became of a submission."""

    #: Its dispatch message is on its way.
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


class Gates(Protocol):
    """The gates, as far as a job meets them."""

    def reading(self, gate: str) -> Reading:
        """Return the gate's epoch and whether it is open."""
        ...

    def hold(self, gate: str, entry_id: str, queue: str, message: str) -> Holding:
        """Keep the message behind the gate or put it on its queue, and say which."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What accepting needs; one for each process."""

    ledger: Ledger
    intake: Intake
    plans: PlanStore
    ids: Ids
    gates: Gates
    send: Callable[[str, str], None]
    pending: PendingTable
    clock: Clock
    #: The workloads of this installation, each with the fields whose sums it proves.
    sums: Mapping[str, Collection[str]]
    limits: Limits
    chunk_items: int
    #: How long a job may be silent before the tick looks after it.
    overdue: timedelta
    telemetry: Telemetry = SILENT

    def accept(self, envelope: Envelope, message_id: str) -> Accepted:
        """Accept one submission; RefusedError is for the publisher, everything else may be tried again."""
        submission = read_submission(envelope, message_id, self.limits)
        self._check(submission)
        with counting(), self.telemetry.span(Piece.ACCEPT, submission.trace, job=submission.job, gate=submission.gate):
            payload = self.intake.take(submission)
            job, is_new = self._insert(submission, fingerprint(submission, payload))
            if not is_new and job.state not in _UNDECIDED:
                return Accepted.DUPLICATE
            return self.pass_on(self._planned(job, submission, payload))

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

    def _insert(self, submission: Submission, content_hash: str) -> tuple[Job, bool]:
        now = self.clock.now()
        new = Job(
            job=submission.job,
            content_hash=content_hash,
            workload=submission.workload,
            accepted_at=now,
            gate=submission.gate,
            deadline=submission.deadline,
            declared=dict(submission.declared.sums),
            trace=self.telemetry.current(),
        )
        # Before the row that it points to: a job that nobody would look after must not exist.
        self.pending.add(Pointer(JOB_POINTER, next_look(new, now, self.overdue), new.job))
        job, is_new = self.ledger.insert(new)
        judged = judge(job, content_hash)
        if not is_new and judged.collision is Collision.CONFLICT:
            raise refuse(Reason.CONFLICT, judged.reason)
        return job, is_new

    def _planned(self, job: Job, submission: Submission, payload: Payload) -> Job:
        if job.plan is not None:
            return job
        plan = plan_of(submission.job, submission.workload, payload, self.chunk_items, self.limits)
        stored = self.plans.put(plan)
        # Of two that accept the same submission the slower one leaves a gap, which the sequence's log explains.
        first_id = self.ids.next_ids(plan.items).start
        epoch = None if job.gate is None else self.gates.reading(job.gate).epoch
        chunks = len(plan.chunks)

        def decide(found: Job) -> Job:
            made = planned(found, stored, chunks, plan.items, first_id)
            return made if made is found else replace(made, held_epoch=epoch)

        return self._commit(job, decide)

    def pass_on(self, job: Job) -> Accepted:
        """Hold a planned job behind its gate or send it on its way; safe to repeat."""
        message = encode(Dispatch(job=job.job)).decode()
        if job.gate is None or self._is_released(job.gate, job.held_epoch):
            self.send(SUBMISSIONS, message)
            return Accepted.DISPATCHED
        if self.gates.hold(job.gate, job.job, SUBMISSIONS, message) is not Holding.HELD:
            return Accepted.DISPATCHED
        self._commit(job, held)
        return Accepted.HELD

    def _is_released(self, gate: str, held_epoch: int | None) -> bool:
        """Whether the gate was opened since the job met it; its held row and its dispatch message may both be gone."""
        return held_epoch is not None and must_dispatch(held_epoch, self.gates.reading(gate))

    def _commit(self, job: Job, decide: Callable[[Job], Job]) -> Job:
        """Write what is decided about the job, deciding anew on what others wrote in between."""
        current: Job | None = job
        for _ in range(MOST_ATTEMPTS):
            if current is None:
                break
            decided = decide(current)
            if decided is current:
                return current
            written = commit(self.ledger, decided)
            if written is not None:
                return written
            current = self.ledger.read(job.job)
        raise ContentionError(
            f"could not write job {job.job!r}: others changed it {MOST_ATTEMPTS} times in a row, or it is gone; "
            "the submission is tried again"
        )
