"""Warns of deadlines before they are missed: each kind of risk once for a job, and nothing where there is no deadline."""

from datetime import datetime
from typing import Final

from shared.ledger.counting import commit
from shared.ledger.decisions import warned
from shared.ledger.forecast import progress
from shared.ledger.ledger import Ledger
from shared.ledger.records import Job
from shared.telemetry import events
from shared.telemetry.event import tell

#: Settlers write the row of a job that runs; what is not noted now is told again at the next look.
_ATTEMPTS: Final = 5


def warn(ledger: Ledger, job: Job, now: datetime) -> Job:
    """Tell that the deadline is at risk, if that is news, and return the job as it is then."""
    seen = progress(job, now)
    if seen.risk is None or warned(job, seen.risk) is job:
        return job
    # Told before it is noted: whoever ends in between tells it twice, and not never.
    tell(
        events.JOB_LATE,
        job=job.job,
        risk=seen.risk.value,
        deadline=job.deadline,
        predicted=seen.predicted,
        state=job.state.value,
    )
    current: Job | None = job
    for _ in range(_ATTEMPTS):
        if current is None or (noted := warned(current, seen.risk)) is current:
            break
        if (written := commit(ledger, noted)) is not None:
            return written
        current = ledger.read(job.job)
    return current or job
