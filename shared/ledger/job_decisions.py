"""The decisions about a job outside of settling: accept twice, plan, hold or pass, dispatch, resume, finish, bury.

They make no request. Each returns the changed job, or the same object if nothing changes. A decision that is repeated
on its own outcome changes nothing. So a stage that lost the reply of a write reads the job and decides again.

The progress of a job: its predicted end, the risk of its deadline, its silence, its turn, and the proof of its totals.

The proof: in = accepted + rejected + parked, in items and in every declared sum. Nothing here makes a request.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple

from shared.errors import JobStateError
from shared.gate import Reading, must_dispatch
from shared.grammar import ZERO, plus
from shared.ledger.ledger import Listed
from shared.ledger.records import CLOSED, ENDED, KEPT, Job, JobState, PlanBlob, PlanText, Risk, Totals


@dataclass(frozen=True, slots=True)
class Balance:
    """The outcome of the proof, and the state in which the job finishes by it."""

    state: JobState
    #: One sentence per number that does not add up.
    problems: tuple[str, ...] = ()
    #: Declared sums that cannot be proven, because some transactions could not be read.
    unproven: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """The problems in one line, or None."""
        return "; ".join(self.problems) or None


def check_balance(job: Job, rows: Totals | None = None) -> Balance:
    """Prove the totals of a job whose chunks have all ended, and decide the state in which it finishes.

    `rows` are the totals added up anew from the chunk rows. They must equal the job's totals.
    """
    problems = [*_items(job), *_rows(job, rows)]
    unproven = tuple(sorted(job.declared)) if job.totals.has_unknown_sums else ()
    if not unproven:
        problems.extend(_sums(job))
    if problems:
        return Balance(JobState.UNBALANCED, tuple(problems), unproven)
    has_parked = job.parked_chunks > 0 or job.totals.parked.items > 0
    return Balance(JobState.COMPLETED_WITH_PARKED if has_parked else JobState.COMPLETE, (), unproven)


def _items(job: Job) -> Iterator[str]:
    if not job.has_ended:
        yield f"{job.chunks - job.ended_chunks} of {job.chunks} chunks have not ended"
    if job.declared_items not in {None, job.items}:
        yield f"{job.declared_items} items were declared, its stretches have {job.items}"
    if job.totals.items != job.items:
        totals = job.totals
        ways = f"{totals.accepted.items} accepted, {totals.rejected.items} rejected, {totals.parked.items} parked"
        yield f"{job.items} items went in, {totals.items} came out ({ways})"


def _sums(job: Job) -> Iterator[str]:
    totals = job.totals
    found = plus(plus(totals.accepted.sums, totals.rejected.sums), totals.parked.sums)
    for name, declared in sorted(job.declared.items()):
        if found.get(name, ZERO) != declared:
            yield f"the sum of {name!r} was declared as {declared:f}, found {found.get(name, ZERO):f}"


def _rows(job: Job, rows: Totals | None) -> Iterator[str]:
    if rows is not None and rows != job.totals:
        yield f"the chunk rows add up to {rows.items} items and other sums than the job's {job.totals.items} items"


def is_failed_entirely(job: Job | Listed) -> bool:
    """Check whether the job has ended and all of it is parked. Its state says "completed"."""
    return job.state is JobState.COMPLETED_WITH_PARKED and bool(job.parked_chunks) and not job.done


def describe_state(job: Job | Listed) -> str | None:
    """Return the state in words, for a person. None: it is not recorded."""
    if is_failed_entirely(job):
        # "Completed" would be read as a success.
        return "failed: all parked"
    return job.state and job.state.value


#: Below this share of ended chunks, the rate so far predicts too little.
_TOO_EARLY: Final = 0.02
#: A job without a prediction, for instance behind its gate, should have this share of its time left.
_SHARE_LEFT: Final = 0.25
#: Two checks are no closer than this, however near the deadline is: the tick itself runs once per minute.
_SHORTEST_PAUSE: Final = timedelta(minutes=1)
_NEXT_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a job, for the command and for the warning about its deadline."""

    ended: int
    chunks: int
    #: The predicted end. None: the job has not started, or it is too early to predict.
    predicted: datetime | None
    #: The danger to its deadline. None: no danger, or no deadline.
    risk: Risk | None = None

    @property
    def is_late(self) -> bool:
        """True if the deadline is missed, or will be at the rate so far."""
        return self.risk in {Risk.PREDICTED_LATE, Risk.MISSED}


def read_progress(job: Job | Listed, now: datetime) -> Progress:
    """Measure the progress of a job, and predict its end from the rate so far."""
    predicted = job.finished_at or _predict_end(job, now)
    return Progress(job.ended_chunks, job.chunks, predicted, _risk(job, predicted, now))


def _predict_end(job: Job | Listed, now: datetime) -> datetime | None:
    if isinstance(job, Job) and job.growing:
        return None
    if job.started_at is None or not job.ended_chunks or job.ended_chunks < _TOO_EARLY * job.chunks:
        return None
    # The rate counts up to now, not up to the last progress: each minute of silence makes a stalled job later.
    per_chunk = (now - job.started_at) / job.ended_chunks
    return now + per_chunk * (job.chunks - job.ended_chunks)


def _risk(job: Job | Listed, predicted: datetime | None, now: datetime) -> Risk | None:
    # A later revision comes from a replay or a resume: the deadline was for the first one.
    if job.deadline is None or job.revision > 1:
        return None
    if (job.finished_at or now) > job.deadline:
        return Risk.MISSED
    if predicted is not None:
        return Risk.PREDICTED_LATE if predicted > job.deadline else None
    is_short = job.deadline - now < (job.deadline - job.accepted_at) * _SHARE_LEFT
    return Risk.WAITS_TOO_LONG if is_short else None


def next_look(deadline: datetime | None, now: datetime, patience: timedelta) -> datetime:
    """Return when the tick should check a job again: sooner near its deadline, to warn before it."""
    if deadline is None or now > deadline:
        return now + patience
    return now + min(patience, max((deadline - now) / 2, _SHORTEST_PAUSE))


def next_warning(job: Job, now: datetime) -> datetime | None:
    """Return when the risk of a job that waits behind its gate grows next. None: never, or it has no deadline."""
    if job.deadline is None or job.revision > 1:
        return None
    short = job.deadline - (job.deadline - job.accepted_at) * _SHARE_LEFT
    # A risk begins after its moment, and a pointer is due in whole seconds.
    grows = (moment + _NEXT_SECOND for moment in (short, job.deadline))
    return next((moment for moment in grows if moment > now), None)


def silent_since(job: Job) -> datetime | None:
    """Return when a job that should progress last did, or was last nudged. None: no progress is expected of it."""
    if job.state in CLOSED | {JobState.HELD, JobState.PAUSED}:
        return None
    return max(moment for moment in (job.accepted_at, job.progressed_at, job.nudged_at) if moment)


def is_overdue(job: Job, now: datetime, patience: timedelta) -> bool:
    """Check whether a job that should progress has been silent for `patience`."""
    since = silent_since(job)
    return since is not None and now - since >= patience


def list_open(job: Job, ended: Collection[int]) -> list[int]:
    """Return the chunks that were put and have not ended, from the place where an earlier repetition stopped.

    The tick has the chunks above the cursor dispatched instead. Nothing of a job that is paused or closed is put.
    """
    if job.state not in _UNDER_WAY:
        return []
    return [chunk for chunk in range(job.again_from or 0, job.dispatch_cursor) if chunk not in ended]


class Turn(NamedTuple):
    """The last message that a job waits for, and the chunks whose queues must have handed it out."""

    put_until: datetime
    chunks: int
    #: When a tick first found that the queues had handed it out.
    over_since: datetime | None = None

    def __str__(self) -> str:
        over = f" {self.over_since.isoformat()}" if self.over_since else ""
        return f"{self.put_until.isoformat()} {self.chunks}{over}"


#: The note of a pointer that waits for no turn.
NO_TURN: Final = "look"


def note_turn(turn: Turn | None) -> str:
    """Return the note of a job's pointer."""
    return NO_TURN if turn is None else str(turn)


def first_turn(since: datetime, deadline: datetime | None) -> Turn | None:
    """Return the turn of a job that is accepted or released now: none of its chunks was put before.

    A job with a deadline has none: it is checked however long its chunks wait.
    """
    return Turn(since, 1) if deadline is None else None


#: Characters of a problem: it is shown in a list of jobs, and a row has a limit.
LONGEST_PROBLEM: Final = 2000
_BEFORE_DISPATCH: Final = frozenset({JobState.PLANNING, JobState.HELD})
_UNDER_WAY: Final = frozenset({JobState.DISPATCHING, JobState.RUNNING})


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


def record_plan(job: Job, plan: PlanBlob | PlanText, chunks: int, items: int, id_base: int | None) -> Job:
    """Record the plan. The plan that was recorded first stays, because ids were reserved for it. A closed job needs none."""
    if job.plan is not None or job.state in CLOSED:
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
    return is_open and job.plan is not None and may_start(job) and not (is_noted_ahead(job) or awaits_stretch(job))


def awaits_stretch(job: Job) -> bool:
    """Check whether all chunks of a growing job were put: who adds some has to put them."""
    return job.growing and job.state is JobState.DISPATCHING and job.dispatch_cursor >= job.chunks


def may_feed(job: Job) -> bool:
    """Check whether chunks wait for their turn: the rest of them, or lost ones that are put again."""
    return may_dispatch(job) or (job.again_from is not None and job.state in _UNDER_WAY)


def note_ahead(job: Job, now: datetime) -> Job:
    """Note in the row of a new job that all of its chunks were put, before they are."""
    return replace(job, state=JobState.DISPATCHING, dispatch_cursor=job.chunks, started_at=now)


def is_noted_ahead(job: Job) -> bool:
    """Check whether its row was written with its cursor at the end, before its chunks were put.

    Small jobs are accepted so. Any other job is running when its cursor is at the end, or still grows.
    """
    return job.state is JobState.DISPATCHING and not job.growing and 0 < job.chunks <= job.dispatch_cursor


def advance_cursor(job: Job, cursor: int, now: datetime, put_until: datetime | None = None, *, halts: int = 0) -> Job:
    """Note that all chunks below the cursor were put on the work queues, and when storage inserted the last of them.

    The cursor only moves forward: of two dispatchers, the slower one changes nothing. `halts`: the number that the
    messages carry. If the job has another one by now, they are dropped, so nothing was put.
    """
    if job.halts != halts:
        return job
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
    return replace(moved, state=state_after_dispatch(moved))


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((moment for moment in (one, other) if moment), default=None)


def note_lane(job: Job, lane: str) -> Job:
    """Note the queue of all the job's messages, before the first one is put. Later it would have two places."""
    return replace(job, lane=lane) if may_dispatch(job) and not job.dispatch_cursor else job


def state_after_dispatch(job: Job) -> JobState:
    """Return the state of a job by its cursor, its ended chunks, and whether it still grows."""
    if job.state not in _BEFORE_DISPATCH and job.state is not JobState.DISPATCHING:
        return job.state
    if job.has_ended:
        # The last result can arrive before the dispatcher's last note, and an empty job has no results at all.
        return JobState.FINISHING
    return _state_of_cursor(job)


def _state_of_cursor(job: Job) -> JobState:
    is_dispatched = job.dispatch_cursor >= job.chunks and not job.growing
    return JobState.RUNNING if is_dispatched else JobState.DISPATCHING


def note_lost(job: Job, first: int) -> Job:
    """Note that lost chunks wait to be put again, from this one on. A place that is noted already stays.

    The job stays silent by this note: a process that dies before its ready row is there leaves it to the next tick.
    """
    if job.again_from is not None or job.state not in _UNDER_WAY:
        return job
    return replace(job, again_from=first)


def note_put_again(  # noqa: PLR0913 - what was put, when, and under which row
    job: Job,
    now: datetime,
    put_until: datetime | None,
    *,
    began: int | None = None,
    left: int | None = None,
    halts: int = 0,
) -> Job:
    """Note that silent messages were put on their queues again, and when storage inserted the last of them.

    `began`: the row's `again_from` when the caller began. `left`: the first chunk that it did not put. If another
    process has moved on since, its place stays. `halts`: as of `advance_cursor`.
    """
    if job.halts != halts:
        return job
    again_from = left if job.again_from == began else job.again_from
    if job.state in ENDED:
        # A later revision must not begin at an old place.
        again_from = None
    return replace(job, nudged_at=now, put_until=_later(job.put_until, put_until), again_from=again_from)


def note_warning(job: Job, risk: Risk) -> Job:
    """Record the warning, unless one as grave was recorded."""
    gravity = list(Risk).index
    if job.warned is not None and gravity(job.warned) >= gravity(risk):
        return job
    return replace(job, warned=risk)


#: Stands for who paused a job that no person did.
BY_ITSELF: Final = "sluice"


def pause(job: Job, by: str, why: str) -> Job:
    """Pause an open job until a person resumes it. Its results are credited, and its state stays also when all chunks end.

    `why`: the problem, for a person. A job without a plan stays unchanged unless it waits for others, and so does one
    that is paused or closed.
    """
    if (job.plan is None and not job.waits) or job.state in CLOSED | {JobState.PAUSED}:
        return job
    # Of a job whose chunks have all ended, or that waits for others, no message is to be taken out.
    halts = job.halts if job.has_ended or job.plan is None else job.halts + 1
    return replace(job, state=JobState.PAUSED, by=by, problem=why[:LONGEST_PROBLEM], halts=halts)


def stop(job: Job, by: str, why: str, now: datetime) -> Job:
    """End an open job for good: its numbers are final, and in = accepted + rejected + parked + not run."""
    if job.state in CLOSED:
        return job
    # Also where its chunks have all ended: by this number, a slow dispatcher notes nothing in the row.
    halted = replace(job, state=JobState.STOPPED, halts=job.halts + 1, again_from=None)
    return replace(halted, by=by, problem=why[:LONGEST_PROBLEM], finished_at=now)


def is_halted(job: Job) -> bool:
    """Check whether the job's chunk messages are taken out of the queues."""
    return job.halts > 0 and job.state in {JobState.PAUSED, JobState.STOPPED, JobState.ERASED}


def never_passed(job: Job) -> bool:
    """Check whether it still waits for its gate. Not by `may_start`, which takes a job beyond `held` for one that has started."""
    return job.gate is not None and job.passed_epoch is None and job.started_at is None and not job.dispatch_cursor


def resume(job: Job, now: datetime) -> Job:
    """Resume a paused job. What is parked so far does not pause it again, and the open chunks are put again.

    A job whose outputs could not be made gets a new revision, so that it takes nothing from the failed attempt. One that
    has not passed its gate waits behind it again, by the epoch that it met: an opening meanwhile is not missed.
    """
    if job.state is not JobState.PAUSED:
        return job
    resumed = replace(
        job, forgiven=job.parked_chunks, aside_forgiven=job.aside, progressed_at=now, problem=None, by=None
    )
    if job.awaits_others:
        return replace(resumed, state=JobState.HELD)
    if never_passed(job):
        return replace(resumed, state=JobState.HELD)
    if job.has_ended:
        return replace(resumed, state=JobState.FINISHING, revision=job.revision + 1)
    if job.halts and job.dispatch_cursor:
        resumed = replace(resumed, again_from=0)
    return replace(resumed, state=_state_of_cursor(job))


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
    _require(job, KEPT, "bury it")
    return job.tombstone()


def erase(job: Job, by: str, why: str, now: datetime) -> Job:
    """Reduce a job in any state to a note that it was erased, with the places of its bytes until the proof.

    Without the hash of its content: of a small payload, that could be guessed.
    """
    if job.state is JobState.ERASED:
        return job
    return replace(
        job.tombstone(),
        state=JobState.ERASED,
        content_hash="",
        gate=job.gate,
        lane=job.lane,
        file=job.file,
        put_until=job.put_until,
        finished_at=job.finished_at or now,
        halts=job.halts + 1,
        by=by,
        problem=why[:LONGEST_PROBLEM],
        erased_at=now,
    )


def note_proof(job: Job, counts: Mapping[str, int], now: datetime) -> Job:
    """Note that nothing of an erased job is left, in how many places that was looked for, and forget the places."""
    if job.state is not JobState.ERASED or job.proof == counts:
        return job
    proven_at = job.proven_at or now
    return replace(job, plan=None, file=None, lane=None, put_until=None, proven_at=proven_at, proof=counts)


def _require_plan(job: Job, tried: str) -> None:
    if job.plan is None:
        raise JobStateError(f"could not {tried}: job {job.job!r} is {job.state} and has no plan; let accept run again")


def _require(job: Job, states: frozenset[JobState] | set[JobState], tried: str) -> None:
    if job.state not in states:
        wanted = " or ".join(sorted(states))
        raise JobStateError(f"could not {tried}: job {job.job!r} is {job.state}, expected {wanted}")
