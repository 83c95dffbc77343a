"""When a job will end, whether that is too late, and which of its chunks were not heard of for too long; pure.

The proof that what went in came out: in = accepted + rejected + parked, in items and in every declared sum; pure.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.grammar import ZERO, plus
from shared.ledger.records import ENDED, Job, JobState, Risk, Totals


@dataclass(frozen=True, slots=True)
class Balance:
    """How a job adds up."""

    state: JobState
    #: One sentence for each thing that does not add up.
    problems: tuple[str, ...] = ()
    #: Declared sums that nobody can prove, because some transactions could not be read.
    unproven: tuple[str, ...] = ()

    @property
    def problem(self) -> str | None:
        """The problems in one line, or None."""
        return "; ".join(self.problems) or None


def check_balance(job: Job, rows: Totals | None = None) -> Balance:
    """Return the state in which a job whose chunks have all ended may finish.

    `rows` are the totals added up anew from the chunk rows; they must be the job's own.
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
    if job.totals.items != job.items:
        yield f"{job.items} items went in, {job.totals.items} came out ({_ways(job)})"


def _ways(job: Job) -> str:
    totals = job.totals
    return f"{totals.accepted.items} accepted, {totals.rejected.items} rejected, {totals.parked.items} parked"


def _sums(job: Job) -> Iterator[str]:
    totals = job.totals
    found = plus(plus(totals.accepted.sums, totals.rejected.sums), totals.parked.sums)
    for name, declared in sorted(job.declared.items()):
        if found.get(name, ZERO) != declared:
            yield f"the sum of {name!r} was declared as {declared:f}, found {found.get(name, ZERO):f}"


def _rows(job: Job, rows: Totals | None) -> Iterator[str]:
    if rows is not None and rows != job.totals:
        yield f"the chunk rows add up to {rows.items} items and other sums than the job's {job.totals.items} items"


#: Below this share of a job, the rate so far says little about the rest.
_TOO_EARLY: Final = 0.02
#: A job of which nothing can be predicted yet, behind its gate for one, should have this share of its time left.
_SHARE_LEFT: Final = 0.25
#: Looks for the sake of a deadline are no closer together: the tick itself comes once a minute.
_CLOSEST_LOOKS: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is, for a person and for the warning of its deadline."""

    ended: int
    chunks: int
    #: None where nothing can be said: not started, or too early.
    predicted: datetime | None
    #: What endangers its deadline; None: nothing, or it has none.
    risk: Risk | None = None

    @property
    def is_late(self) -> bool:
        """Whether the deadline is missed already, or will be at the rate so far."""
        return self.risk in {Risk.PREDICTED_LATE, Risk.MISSED}


def read_progress(job: Job, now: datetime) -> Progress:
    """Return how far a job is and when it will end at the rate so far."""
    predicted = job.finished_at or _predict_end(job, now)
    return Progress(job.ended_chunks, job.chunks, predicted, _risk(job, predicted, now))


def _predict_end(job: Job, now: datetime) -> datetime | None:
    if job.started_at is None or not job.ended_chunks or job.ended_chunks < _TOO_EARLY * job.chunks:
        return None
    # Until now, not until the last progress: a job that stands still is later with every minute.
    per_chunk = (now - job.started_at) / job.ended_chunks
    return now + per_chunk * (job.chunks - job.ended_chunks)


def _risk(job: Job, predicted: datetime | None, now: datetime) -> Risk | None:
    # A replay opens a job again that had its end: the deadline was for that one.
    if job.deadline is None or job.revision > 1:
        return None
    if (job.finished_at or now) > job.deadline:
        return Risk.MISSED
    if predicted is not None:
        return Risk.PREDICTED_LATE if predicted > job.deadline else None
    is_short = job.deadline - now < (job.deadline - job.accepted_at) * _SHARE_LEFT
    return Risk.WAITS_TOO_LONG if is_short else None


def next_look(job: Job, now: datetime, patience: timedelta) -> datetime:
    """Return when somebody should look at the job again: sooner as its deadline comes nearer, so as to warn before."""
    if job.deadline is None or now > job.deadline:
        return now + patience
    return now + min(patience, max((job.deadline - now) / 2, _CLOSEST_LOOKS))


def silent_since(job: Job) -> datetime | None:
    """Return when a job that should be moving was last heard of or nudged; None for one that nobody waits for."""
    if job.state in ENDED - {JobState.FINISHING} | {JobState.HELD, JobState.PAUSED, JobState.BURIED}:
        return None
    return max(moment for moment in (job.accepted_at, job.progressed_at, job.nudged_at) if moment)


def is_overdue(job: Job, now: datetime, patience: timedelta) -> bool:
    """Whether a job made no progress for that long although it should."""
    since = silent_since(job)
    return since is not None and now - since >= patience


def overdue(job: Job, ended: Collection[int], now: datetime, patience: timedelta) -> list[int]:
    """Return the chunks to put again: on a work queue once, not ended, and the job silent for too long.

    Chunks that the cursor has not reached are the dispatcher's, whose message is sent again instead.
    """
    if job.state in ENDED or not is_overdue(job, now, patience):
        return []
    return [chunk for chunk in range(job.dispatch_cursor) if chunk not in ended]
