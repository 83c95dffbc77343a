"""The decisions about a job outside of settling: accept twice, plan, hold or pass, dispatch, resume, finish, bury.

They make no request. Each returns the changed job, or the same object if nothing changes. A decision that is repeated
on its own outcome changes nothing. So a stage that lost the reply of a write reads the job and decides again.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Final

from shared.errors import JobStateError
from shared.gate import Reading, must_dispatch
from shared.ledger.progress import Balance
from shared.ledger.records import FINISHED, Job, JobState, PlanBlob, Risk

#: Characters of a problem: it is shown in a list of jobs, and a row has a limit.
LONGEST_PROBLEM: Final = 2000
_BEFORE_DISPATCH: Final = frozenset({JobState.PLANNING, JobState.HELD})


class Collision(Enum):
    """How a submission relates to the job that already has its id."""

    #: The same content, which runs once.
    DUPLICATE = "duplicate"
    #: Other content, which is never merged.
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Judged:
    """A collision, with the reason for the publisher if it is a conflict."""

    collision: Collision
    reason: str = ""


def judge(existing: Job, content_hash: str, hash_before: str | None = None) -> Judged:
    """Tell a repeated submission from another one under the same job id.

    The previous version may have accepted the job. `hash_before` is this submission's hash by its rules.
    """
    if existing.content_hash in {content_hash, hash_before}:
        return Judged(Collision.DUPLICATE)
    return Judged(
        Collision.CONFLICT,
        f"job {existing.job!r} was accepted with content {existing.content_hash}, this submission has content "
        f"{content_hash}; its workload, gate, declared items and sums, codec, index and bytes are its content",
    )


def record_plan(job: Job, plan: PlanBlob, chunks: int, items: int, id_base: int | None) -> Job:
    """Record the plan. The plan that was recorded first stays, because ids were reserved for it."""
    if job.plan is not None:
        return job
    _require(job, {JobState.PLANNING}, "record the plan")
    return replace(job, plan=plan, chunks=chunks, items=items, id_base=id_base, problem=None)


def note_missing_plan(job: Job) -> Job:
    """Record the problem of a job that has waited too long for its plan. A planned job stays unchanged."""
    if job.plan is not None or job.state is not JobState.PLANNING or job.problem:
        return job
    return replace(job, problem="it has no plan yet: send its submission again under the same job id, it counts once")


def note_gate_passed(job: Job, gate: Reading) -> Job:
    """Record the gate's answer for a planned job: it may start, or it is held.

    The first epoch that the job met stays. Any later opening releases it, even if the gate was closed again since.
    """
    if may_start(job):
        return job
    _require_plan(job, "pass or hold it")
    first = gate.epoch if job.held_epoch is None else job.held_epoch
    if must_dispatch(first, gate):
        return replace(job, held_epoch=first, passed_epoch=gate.epoch)
    is_held = job.state is JobState.HELD and job.held_epoch == first
    return job if is_held else replace(job, state=JobState.HELD, held_epoch=first)


def may_start(job: Job) -> bool:
    """Check by the row alone: the job has no gate, its passage was noted, or it has started before."""
    return job.gate is None or job.passed_epoch is not None or job.state not in _BEFORE_DISPATCH


def is_waiting(job: Job) -> bool:
    """Check by the row alone: none of its chunks was put, perhaps because it waits behind its gate."""
    return job.state in _BEFORE_DISPATCH


def may_dispatch(job: Job) -> bool:
    """Check whether chunks may be put: the job is planned, past its gate, not paused, not ended, and some are left."""
    is_open = job.state in _BEFORE_DISPATCH or job.state is JobState.DISPATCHING
    return is_open and job.plan is not None and may_start(job)


def advance_cursor(job: Job, cursor: int, now: datetime, put_until: datetime | None = None) -> Job:
    """Note that all chunks below the cursor were put on the work queues, and when storage inserted the last of them.

    The cursor only moves forward: of two dispatchers, the slower one changes nothing.
    """
    _require_plan(job, "note its dispatch")
    if not may_start(job):
        raise JobStateError(
            f"could not note its dispatch: job {job.job!r} is {job.state} and has not passed its gate {job.gate!r}; "
            "let a release of the gate dispatch it"
        )
    if job.state not in _BEFORE_DISPATCH and cursor <= job.dispatch_cursor:
        return job
    moved = replace(
        job,
        dispatch_cursor=min(max(cursor, job.dispatch_cursor), job.chunks),
        started_at=job.started_at or now,
        progressed_at=now,
        put_until=_later(job.put_until, put_until),
    )
    return replace(moved, state=_state_after_dispatch(moved))


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((moment for moment in (one, other) if moment), default=None)


def note_lane(job: Job, lane: str) -> Job:
    """Note the queue of all the job's messages, before the first one is put. Later it would have two places."""
    return replace(job, lane=lane) if may_dispatch(job) and not job.dispatch_cursor else job


def _state_after_dispatch(job: Job) -> JobState:
    if job.state not in _BEFORE_DISPATCH and job.state is not JobState.DISPATCHING:
        return job.state
    if job.has_ended:
        # The last result can arrive before the dispatcher's last note, and an empty job has no results at all.
        return JobState.FINISHING
    return JobState.RUNNING if job.dispatch_cursor >= job.chunks else JobState.DISPATCHING


def note_put_again(
    job: Job, now: datetime, put_until: datetime | None, *, began: int | None = None, left: int | None = None
) -> Job:
    """Note that silent messages were put on their queues again, and when storage inserted the last of them.

    `began`: the row's `again_from` when the caller began. `left`: the first chunk that it did not put. If another
    process has moved on since, its place stays.
    """
    again_from = left if job.again_from == began else job.again_from
    return replace(job, nudged_at=now, put_until=_later(job.put_until, put_until), again_from=again_from)


def note_warning(job: Job, risk: Risk) -> Job:
    """Record the warning, unless one as grave was recorded."""
    gravity = list(Risk).index
    if job.warned is not None and gravity(job.warned) >= gravity(risk):
        return job
    return replace(job, warned=risk)


def undispatchable(job: Job, problem: str) -> Job:
    """Pause a job whose chunks cannot be put, until an operator resumes it."""
    return replace(job, state=JobState.PAUSED, problem=problem[:LONGEST_PROBLEM]) if may_dispatch(job) else job


def resume(job: Job, now: datetime) -> Job:
    """Resume a paused job. The chunks that are parked so far do not pause it again.

    A job whose outputs could not be made gets a new revision, so that it takes nothing from the failed attempt.
    """
    if job.state is not JobState.PAUSED:
        return job
    resumed = replace(job, forgiven=job.parked_chunks, progressed_at=now, problem=None)
    if job.has_ended:
        return replace(resumed, state=JobState.FINISHING, revision=job.revision + 1)
    is_dispatched = job.dispatch_cursor >= job.chunks
    return replace(resumed, state=JobState.RUNNING if is_dispatched else JobState.DISPATCHING)


def halt(job: Job, revision: int, problem: str) -> Job:
    """Pause a job whose outputs cannot be made, until an operator resumes it."""
    if job.state is not JobState.FINISHING or job.revision != revision:
        return job
    return replace(job, state=JobState.PAUSED, problem=problem[:LONGEST_PROBLEM])


def finish(job: Job, revision: int, balance: Balance, now: datetime) -> Job:
    """Finish the job at this revision. If a newer revision has begun, the job stays unchanged."""
    if job.state is not JobState.FINISHING or job.revision != revision:
        return job
    problem = (balance.problem or "")[:LONGEST_PROBLEM] or None
    return replace(job, state=balance.state, problem=problem, finished_at=now)


def bury(job: Job) -> Job:
    """Reduce a finished job after its retention to its tombstone, which still recognizes the same submission."""
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
