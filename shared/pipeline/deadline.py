"""Warns of deadlines before they are missed: each kind of risk once for a job, and nothing where there is no deadline."""

from dataclasses import replace
from datetime import datetime
from typing import Final

from shared.ledger.decisions import warned
from shared.ledger.forecast import progress
from shared.ledger.ledger import Ledger, change
from shared.ledger.records import Job
from shared.retry import LOST_RACES
from shared.telemetry import events
from shared.telemetry.event import tell

#: Settlers write the row of a running job. A warning that is not noted now is repeated at the next check.
_NOT_URGENT: Final = replace(LOST_RACES, give_up=True)


def warn(ledger: Ledger, job: Job, now: datetime) -> Job:
    """Tell that the deadline is at risk, if that is news, and return the job as it is then."""
    seen = progress(job, now)
    risk = seen.risk
    if risk is None or warned(job, risk) is job:
        return job
    # Told before it is noted: whoever ends in between tells it twice, and not never.
    tell(
        events.JOB_LATE,
        job=job.job,
        risk=risk.value,
        deadline=job.deadline,
        predicted=seen.predicted,
        state=job.state.value,
    )
    noted = change(
        ledger, job.job, lambda found: warned(found, risk), tried="note a warning", known=job, retry=_NOT_URGENT
    )
    return noted or job
