"""The columns of jobs, gates, causes, parked entries and replays, for the command and the console."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.ledger import CLOSED, LISTED_EVERY, Job, JobState, Listed, Risk, describe_state, read_progress
from shared.operating.gate_acts import Overview, describe_gate
from shared.operating.job_acts import NOT_RECORDED
from shared.operating.listing import Aside, HowFar, ListColumn, StateMark, Trend
from shared.operating.replay_record import Replay, describe_fates
from shared.parked import CauseSums, Entry

#: In these states the rate so far predicts nothing.
_STANDING: Final = CLOSED | {JobState.PAUSED, JobState.HELD, JobState.PLANNING}
#: Characters of a cause's finding.
_FOUND: Final = 80


@dataclass(frozen=True, slots=True)
class JobRow:
    """One line of a list of jobs: the job, and what follows from it."""

    job: Job | Listed
    predicted: datetime | None
    risk: Risk | None
    #: Transactions per second since it started.
    rate: float | None
    #: When its state was seen, if it may be another by now.
    seen_at: datetime | None
    #: Another submission of its id was refused later, and is parked.
    has_refused: bool
    #: Messages of it fail again and again.
    is_failing: bool

    @property
    def state(self) -> str:
        """Return the state in words."""
        return describe_state(self.job) or NOT_RECORDED


def row_of_job(
    job: Job | Listed, now: datetime, refused: Collection[str] = (), failing: Collection[str] = ()
) -> JobRow:
    """Return the line of a job. `refused`: the jobs of whose ids another submission was refused later."""
    how_far = read_progress(job, now)
    is_on_its_way = job.state is not None and job.state not in _STANDING and job.started_at is not None
    seconds = (now - job.started_at).total_seconds() if is_on_its_way and job.started_at else 0.0
    return JobRow(
        job=job,
        predicted=how_far.predicted if is_on_its_way else None,
        risk=how_far.risk,
        rate=job.items * job.ended_chunks / job.chunks / seconds if seconds >= 1 and job.ended_chunks else None,
        seen_at=job.as_of if isinstance(job, Listed) and _is_old(job, now) else None,
        has_refused=job.job in refused,
        is_failing=job.job in failing,
    )


def _is_old(job: Listed, now: datetime) -> bool:
    return job.state not in CLOSED and job.as_of is not None and now - job.as_of >= LISTED_EVERY


def _note_state(row: JobRow, _now: datetime) -> Iterator[Aside]:
    if row.seen_at:
        yield Aside("seen", row.seen_at)
    if row.is_failing:
        yield Aside("failing")
    if row.has_refused:
        yield Aside("another refused")


def _note_deadline(row: JobRow, _now: datetime) -> Iterator[Aside | StateMark]:
    if row.risk:
        yield StateMark(row.risk.value)
    if row.predicted:
        yield Aside("ends about", row.predicted)


#: `templates/_words.html` of the console draws each of them: no page names a column.
JOBS: Final = (
    ListColumn[JobRow]("job", lambda row, _: row.job.job, page="job", parts=lambda row: {"job": row.job.job}),
    ListColumn[JobRow]("state", lambda row, _: StateMark(row.state), _note_state),
    ListColumn[JobRow](
        "chunks",
        lambda row, _: (
            HowFar(row.job.ended_chunks, row.job.parked_chunks, row.job.chunks)
            if row.job.state and row.job.chunks
            else ""
        ),
    ),
    ListColumn[JobRow]("transactions", lambda row, _: row.job.items if row.job.state else "", is_number=True),
    ListColumn[JobRow]("rate", lambda row, _: f"{row.rate:,.1f}/s" if row.rate is not None else "", is_number=True),
    ListColumn[JobRow]("workload", lambda row, _: row.job.workload),
    ListColumn[JobRow]("gate", lambda row, _: row.job.gate, page="gate", parts=lambda row: {"gate": row.job.gate}),
    ListColumn[JobRow]("deadline", lambda row, _: row.job.deadline, _note_deadline, is_time=True),
    ListColumn[JobRow]("accepted at", lambda row, _: row.job.accepted_at, is_time=True),
)


def _note_plan(row: Overview, _now: datetime) -> Iterator[Aside]:
    if row.state.scheduled and row.state.scheduled.once:
        yield Aside("once")


def _note_opener(row: Overview, _now: datetime) -> Iterator[Aside]:
    if row.state.at and row.state.opened_by:
        yield Aside(f"by {row.state.opened_by}")


GATES: Final = (
    ListColumn[Overview]("gate", lambda row, _: row.gate, page="gate", parts=lambda row: {"gate": row.gate}),
    ListColumn[Overview](
        "state",
        lambda row, _: StateMark("unreadable" if row.problem else describe_gate(row.state)),
        lambda row, _: [Aside(row.problem)] if row.problem else [],
    ),
    ListColumn[Overview]("epoch", lambda row, _: row.state.epoch, is_number=True),
    ListColumn[Overview]("held", lambda row, _: row.held.count, is_number=True),
    ListColumn[Overview](
        "the oldest since",
        lambda row, _: row.held.oldest,
        lambda row, _: [Aside("check its spelling")] if row.holds_in_silence else [],
        is_time=True,
    ),
    ListColumn[Overview](
        "opens at", lambda row, _: row.state.scheduled.at if row.state.scheduled else None, _note_plan, is_time=True
    ),
    ListColumn[Overview]("last opened", lambda row, _: row.state.at, _note_opener, is_time=True),
)


def _note_cause(cause: CauseSums, _now: datetime) -> Iterator[Aside]:
    if cause.place:
        yield Aside(f"in {cause.place}")
    yield Aside(f"at {cause.stage}")


CAUSES: Final = (
    ListColumn[CauseSums](
        "fingerprint",
        lambda cause, _: cause.fingerprint,
        page="cause",
        parts=lambda cause: {"fingerprint": cause.fingerprint},
    ),
    ListColumn[CauseSums]("cause", lambda cause, _: _name_cause(cause), _note_cause),
    ListColumn[CauseSums]("entries", lambda cause, _: cause.number if cause.over else cause.open, is_number=True),
    ListColumn[CauseSums]("what to do", lambda cause, _: cause.instead),
    ListColumn[CauseSums]("last jobs", lambda cause, _: " ".join(cause.jobs)),
    ListColumn[CauseSums]("24 hours", lambda cause, now: Trend(cause.trend(now))),
    ListColumn[CauseSums]("last", lambda cause, _: cause.last_at, is_time=True),
    ListColumn[CauseSums]("first", lambda cause, _: cause.first_at, is_time=True),
)


def _name_cause(cause: CauseSums) -> str:
    """Return a cause in words: two of one error differ by their findings."""
    found = cause.found if len(cause.found) <= _FOUND else f"{cause.found[:_FOUND]} ..."
    return ": ".join(filter(None, (cause.reason, found)))


ENTRIES: Final = (
    ListColumn[Entry]("job", lambda entry, _: entry.about),
    ListColumn[Entry](
        "key", lambda entry, _: entry.key, page="entry", parts=lambda entry: {"job": entry.job, "key": entry.key}
    ),
    ListColumn[Entry]("state", lambda entry, _: StateMark("parked" if entry.is_open else entry.state.value)),
    ListColumn[Entry]("reason", lambda entry, _: entry.reason),
    ListColumn[Entry]("attempts", lambda entry, _: entry.attempts, is_number=True),
    ListColumn[Entry]("replays", lambda entry, _: entry.replays, is_number=True),
    ListColumn[Entry]("came back", lambda entry, _: entry.returns, is_number=True),
    ListColumn[Entry]("last", lambda entry, _: entry.last_at, is_time=True),
    ListColumn[Entry]("stage", lambda entry, _: entry.stage),
)

REPLAYS: Final = (
    ListColumn[Replay](
        "replay", lambda replay, _: replay.id, page="replay", parts=lambda replay: {"replay": replay.id}
    ),
    ListColumn[Replay](
        "state", lambda replay, now: StateMark("stands still" if replay.is_still(now) else replay.state.value)
    ),
    ListColumn[Replay]("of", lambda replay, _: str(replay.selection)),
    ListColumn[Replay]("entries", lambda replay, _: f"{replay.taken:,} of {replay.entries:,}", is_number=True),
    ListColumn[Replay]("waves", lambda replay, _: replay.begun, is_number=True),
    ListColumn[Replay]("result", lambda replay, _: replay.result or describe_fates(replay.counts)),
    ListColumn[Replay]("by", lambda replay, _: replay.who),
    ListColumn[Replay]("why", lambda replay, _: replay.why),
)
