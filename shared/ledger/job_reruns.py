"""The decision about another run of a job: under which revision, and what begins anew. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from shared.ledger.job_decisions import never_passed
from shared.ledger.records import CLOSED, KEPT, Job, JobState, Totals

#: A person may have it run again: it has ended, or nothing of it runs.
_MAY_RUN_AGAIN: Final = KEPT | {JobState.PAUSED}


def refuse_rerun(job: Job) -> str:
    """Say why a person cannot have the job run again, or nothing."""
    if job.state not in CLOSED | _MAY_RUN_AGAIN:
        return f"it is {job.state}: pause or stop it first"
    if job.state is JobState.BURIED:
        # Its row was written for the last time then.
        return f"its payload was removed on {job.listed_at:%Y-%m-%d}" if job.listed_at else "its payload was removed"
    if job.state not in _MAY_RUN_AGAIN:
        return f"it is {job.state}: its payload is gone"
    if job.growing:
        return "it grows: send the rest, or send it under another id"
    return "" if job.plan or job.from_jobs else "it was stopped before it had a plan: send it under another id"


def takes_newest(job: Job, sources: Mapping[str, Job | None]) -> bool:
    """Check whether another run of a job is made from its sources anew: one of them is at another revision by now."""
    if job.from_jobs is None:
        return False
    found = ((used, sources[name]) for name, used in job.used.items())
    return job.plan is None or any(one is not None and one.revision != used for used, one in found)


def rerun(job: Job, now: datetime, *, lines: bool | None = None, newest: bool = False) -> Job:
    """Run a job again from its first chunk, under a new revision: of the runs before, no row and no result counts.

    Plan and ids stay, so each transaction keeps its number. `lines`: whether it has lines now. None: as before.
    `newest`: it waits for those that it is made from once more, and gets another plan and other ids from their lines.
    """
    if newest:
        job = replace(job, plan=None, id_base=None, items=0, chunks=0, waits_at=0, used=MappingProxyType({}))
    state = JobState.DISPATCHING if job.chunks else JobState.FINISHING
    return replace(
        job,
        state=JobState.HELD if newest or never_passed(job) else state,
        revision=job.revision + 1,
        run_from=job.revision + 1,
        # By this number, a dispatcher of before notes nothing, and its messages are dropped.
        halts=job.halts + 1,
        lines=job.lines if lines is None else lines,
        done=0,
        parked_chunks=0,
        totals=Totals(),
        dispatch_cursor=0,
        lane=None,
        started_at=None,
        progressed_at=now,
        put_until=None,
        finished_at=None,
        nudged_at=None,
        again_from=None,
        forgiven=0,
        aside=None,
        aside_forgiven=None,
        sounded=None,
        too_rejected=None,
        problem=None,
        by=None,
        milliseconds=0,
    )
