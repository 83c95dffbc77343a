"""The progress of a job: its predicted end, the risk of its deadline, its silence, its turn, and the proof of its totals.

The proof: in = accepted + rejected + parked, in items and in every declared sum. Nothing here makes a request.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from shared.grammar import ZERO, plus
from shared.ledger.ledger import Listed
from shared.ledger.records import ENDED, Job, JobState, Risk, Totals


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
    if job.state in ENDED - {JobState.FINISHING} | {JobState.HELD, JobState.PAUSED, JobState.BURIED}:
        return None
    return max(moment for moment in (job.accepted_at, job.progressed_at, job.nudged_at) if moment)


def is_overdue(job: Job, now: datetime, patience: timedelta) -> bool:
    """Check whether a job that should progress has been silent for `patience`."""
    since = silent_since(job)
    return since is not None and now - since >= patience


def list_open(job: Job, ended: Collection[int]) -> list[int]:
    """Return the chunks that were put and have not ended, from the place where an earlier repetition stopped.

    The tick has the chunks above the cursor dispatched instead.
    """
    if job.state in ENDED:
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
