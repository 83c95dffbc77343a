"""What happens to a job outside of settling: accepted twice, planned, held or let pass, dispatched, resumed; pure.

Every decision may be repeated on what it has already decided and then changes nothing, so that whoever lost the reply
of a write reads the job again and simply decides again.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Final

from shared.errors import JobStateError
from shared.gate import Reading, must_dispatch
from shared.ledger.progress import Balance
from shared.ledger.records import FINISHED, Job, JobState, PlanBlob, Risk

#: A problem is read in a list of jobs; the row has a limit.
LONGEST_PROBLEM: Final = 2000
_BEFORE_DISPATCH: Final = frozenset({JobState.PLANNING, JobState.HELD})


class Collision(Enum):
    """What a submission is to the job that already has its id."""

    #: The same content: it runs once.
    DUPLICATE = "duplicate"
    #: Other content: never merged.
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Judged:
    """The collision, and for a conflict what to tell the publisher."""

    collision: Collision
    reason: str = ""


def judge(existing: Job, content_hash: str, hash_before: str | None = None) -> Judged:
    """Say whether a submission under an id that is taken is the same one again or another one.

    `hash_before`: how the version before, which may have accepted the job, took the hash of this submission.
    """
    if existing.content_hash in {content_hash, hash_before}:
        return Judged(Collision.DUPLICATE)
    return Judged(
        Collision.CONFLICT,
        f"job {existing.job!r} was accepted with content {existing.content_hash}, this submission has content "
        f"{content_hash}; its workload, gate, declared items and sums, codec, index and bytes are its content",
    )


def record_plan(job: Job, plan: PlanBlob, chunks: int, items: int, id_base: int | None) -> Job:
    """Return the job with its plan; the plan that was recorded first stays, since ids were reserved for it."""
    if job.plan is not None:
        return job
    _require(job, {JobState.PLANNING}, "record the plan")
    return replace(job, plan=plan, chunks=chunks, items=items, id_base=id_base, problem=None)


def note_missing_plan(job: Job) -> Job:
    """Return a job that has waited for its plan for too long with the problem, for a person; a planned one unchanged."""
    if job.plan is not None or job.state is not JobState.PLANNING or job.problem:
        return job
    return replace(job, problem="it has no plan yet: send its submission again under the same job id, it counts once")


def note_gate_passed(job: Job, gate: Reading) -> Job:
    """Return the planned job as its gate found it: with the note that it may start, or as one that waits.

    The first epoch that it met stays: any opening since then is its own, whatever was closed meanwhile.
    """
    if may_start(job):
        return job
    _require_plan(job, "pass or hold it")
    first = gate.epoch if job.held_epoch is None else job.held_epoch
    if must_dispatch(first, gate):
        return replace(job, held_epoch=first, passed_epoch=gate.epoch)
    is_known = job.state is JobState.HELD and job.held_epoch == first
    return job if is_known else replace(job, state=JobState.HELD, held_epoch=first)


def may_start(job: Job) -> bool:
    """Whether the row says so: it has no gate, somebody who read its gate noted it, or it has started before."""
    return job.gate is None or job.passed_epoch is not None or job.state not in _BEFORE_DISPATCH


def may_dispatch(job: Job) -> bool:
    """Whether its chunks may be put on the work queues: planned, past its gate, not paused, not all put, not ended."""
    is_open = job.state in _BEFORE_DISPATCH or job.state is JobState.DISPATCHING
    return is_open and job.plan is not None and may_start(job)


def advance_cursor(job: Job, cursor: int, now: datetime) -> Job:
    """Return the job with all chunks below the cursor put on the work queues.

    The cursor only moves forward: of two dispatchers the slower one changes nothing.
    """
    _require_plan(job, "note its dispatch")
    if not may_start(job):
        raise JobStateError(
            f"could not note its dispatch: job {job.job!r} is {job.state} and nobody let it pass its gate"
        )
    if job.state not in _BEFORE_DISPATCH and cursor <= job.dispatch_cursor:
        return job
    moved = replace(
        job,
        dispatch_cursor=min(max(cursor, job.dispatch_cursor), job.chunks),
        started_at=job.started_at or now,
        progressed_at=now,
    )
    return replace(moved, state=_state_after_dispatch(moved))


def _state_after_dispatch(job: Job) -> JobState:
    if job.state not in _BEFORE_DISPATCH and job.state is not JobState.DISPATCHING:
        return job.state
    if job.has_ended:
        # The last result can overtake the last note of the dispatcher, and an empty job has no results at all.
        return JobState.FINISHING
    return JobState.RUNNING if job.dispatch_cursor >= job.chunks else JobState.DISPATCHING


def note_put_again(job: Job, now: datetime) -> Job:
    """Return the job as one whose silent chunks were put again."""
    return replace(job, nudged_at=now)


def note_warning(job: Job, risk: Risk) -> Job:
    """Return the job as one of whose risk somebody was told; a graver one was told before: unchanged."""
    gravity = list(Risk).index
    if job.warned is not None and gravity(job.warned) >= gravity(risk):
        return job
    return replace(job, warned=risk)


def undispatchable(job: Job, problem: str) -> Job:
    """Return a job whose chunks cannot be put, as one that waits for a person."""
    return replace(job, state=JobState.PAUSED, problem=problem[:LONGEST_PROBLEM]) if may_dispatch(job) else job


def resume(job: Job, now: datetime) -> Job:
    """Return a paused job as one that goes on; what is parked so far does not pause it again.

    One whose outputs could not be made gets a new revision, so that nothing of the failed attempt is taken over.
    """
    if job.state is not JobState.PAUSED:
        return job
    going = replace(job, forgiven=job.parked_chunks, progressed_at=now, problem=None)
    if job.has_ended:
        return replace(going, state=JobState.FINISHING, revision=job.revision + 1)
    is_dispatched = job.dispatch_cursor >= job.chunks
    return replace(going, state=JobState.RUNNING if is_dispatched else JobState.DISPATCHING)


def halt(job: Job, revision: int, problem: str) -> Job:
    """Return a job whose outputs cannot be made as one that waits for a person."""
    if job.state is not JobState.FINISHING or job.revision != revision:
        return job
    return replace(job, state=JobState.PAUSED, problem=problem[:LONGEST_PROBLEM])


def finish(job: Job, revision: int, balance: Balance, now: datetime) -> Job:
    """Return the job as finished at this revision, or unchanged where a newer one has begun."""
    if job.state is not JobState.FINISHING or job.revision != revision:
        return job
    problem = (balance.problem or "")[:LONGEST_PROBLEM] or None
    return replace(job, state=balance.state, problem=problem, finished_at=now)


def bury(job: Job) -> Job:
    """Return what is kept of a finished job after its retention: enough to know the same submission again."""
    if job.state is JobState.BURIED:
        return job
    _require(job, FINISHED, "bury it")
    return job.tombstone()


def _require_plan(job: Job, tried: str) -> None:
    if job.plan is None:
        raise JobStateError(f"could not {tried}: job {job.job!r} is {job.state} and has no plan; let accept run again")


def _require(job: Job, states: frozenset[JobState] | set[JobState], tried: str) -> None:
    if job.state not in states:
        wanted = " or ".join(sorted(states))
        raise JobStateError(f"could not {tried}: job {job.job!r} is {job.state}, expected {wanted}")
