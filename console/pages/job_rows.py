"""Jobs as lists show them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.ledger import FINISHED, Job, JobState, Listed, Risk, read_progress
from shared.operating import NOT_RECORDED

#: In these states the rate so far predicts nothing.
_STANDING: Final = FINISHED | {JobState.PAUSED, JobState.HELD, JobState.PLANNING, JobState.BURIED}


@dataclass(frozen=True, slots=True)
class JobRow:
    """One line of a list of jobs."""

    job: str
    state: str
    workload: str
    gate: str | None
    items: int
    chunks: int
    ended: int
    parked: int
    accepted_at: datetime
    deadline: datetime | None
    predicted: datetime | None
    risk: Risk | None
    #: Transactions per second since it started.
    rate: float | None


def row_of_job(job: Job | Listed, now: datetime) -> JobRow:
    """Return the line of a job."""
    how_far = read_progress(job, now)
    is_on_its_way = job.state is not None and job.state not in _STANDING and job.started_at is not None
    seconds = (now - job.started_at).total_seconds() if is_on_its_way and job.started_at else 0.0
    return JobRow(
        job=job.job,
        state=job.state or NOT_RECORDED,
        workload=job.workload,
        gate=job.gate,
        items=job.items,
        chunks=job.chunks,
        ended=job.ended_chunks,
        parked=job.parked_chunks,
        accepted_at=job.accepted_at,
        deadline=job.deadline,
        predicted=how_far.predicted if is_on_its_way else None,
        risk=how_far.risk,
        rate=job.items * job.ended_chunks / job.chunks / seconds if seconds >= 1 and job.ended_chunks else None,
    )
