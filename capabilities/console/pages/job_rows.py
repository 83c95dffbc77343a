"""Jobs as lists show them."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.ledger import (
    CLOSED,
    JOB_COLUMNS,
    LISTED_EVERY,
    Job,
    JobState,
    Listed,
    Risk,
    describe_state,
    read_progress,
)
from shared.operating import NOT_RECORDED

#: In these states the rate so far predicts nothing.
_STANDING: Final = CLOSED | {JobState.PAUSED, JobState.HELD, JobState.PLANNING}


#: The columns of tables. `as_of` stands in the cell of the state, where it may be another by now.
COLUMNS: Final = tuple(column for column in JOB_COLUMNS if column.head and column.name != "as_of")


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

    @property
    def state(self) -> str:
        """Return the state in words."""
        return describe_state(self.job) or NOT_RECORDED


def row_of_job(job: Job | Listed, now: datetime, refused: Collection[str] = ()) -> JobRow:
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
    )


def _is_old(job: Listed, now: datetime) -> bool:
    return job.state not in CLOSED and job.as_of is not None and now - job.as_of >= LISTED_EVERY
