"""Decides how a job grows by stretches of its payload, in their order, until the end is declared. Pure.

Who adds a stretch puts its chunks only where the row of that very write says that all chunks before were put. Else another
process puts them: it sees the new ones when it notes its cursor.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from shared.grammar import Amounts
from shared.ledger.job_decisions import LONGEST_PROBLEM, awaits_stretch, state_after_dispatch
from shared.ledger.records import CLOSED, Job, JobState, PlanBlob, StretchRow


class Planned(NamedTuple):
    """A stretch that was read and planned, and the place in the chain of blobs that it had then."""

    number: int
    previous: str
    #: The hash of its own blob.
    chain: str
    #: None: it has no transaction.
    plan: PlanBlob | None
    chunks: int
    items: int
    id_base: int


class Taken(NamedTuple):
    """A job with one more stretch, and the row of that stretch, if it has chunks."""

    job: Job
    row: StretchRow | None
    #: Whether its taker has to put its chunks.
    is_to_be_put: bool


def may_take(job: Job) -> bool:
    """Check whether a stretch may be added: the job grows, and is neither paused nor closed."""
    return job.growing and job.plan is not None and job.state not in CLOSED | {JobState.PAUSED}


def take_stretch(job: Job, found: Planned) -> Taken | None:
    """Add a stretch. None: another one was taken in its place, or the job takes none now."""
    if not may_take(job) or (job.stretches, job.chain) != (found.number, found.previous):
        return None
    row = None
    if found.plan is not None:
        row = StretchRow(
            job=job.job,
            chunk=job.chunks,
            number=found.number,
            chunks=found.chunks,
            items=found.items,
            before=job.items,
            id_base=found.id_base,
            plan=found.plan,
        )
    grown = replace(
        job,
        stretches=job.stretches + 1,
        chain=found.chain,
        chunks=job.chunks + found.chunks,
        items=job.items + found.items,
        problem=None,
    )
    return Taken(grown, row, row is not None and awaits_stretch(job))


def was_paused(job: Job) -> bool:
    """Check whether the job was paused before it came to its present state."""
    return len(job.story) > 1 and job.story[-2].state == JobState.PAUSED


def is_next(job: Job, stretch: int) -> bool:
    """Check whether the worker that cut this range has to take it.

    It reads the row after it wrote what it cut. Who takes the range before looks for this one after that write of the row.
    So one of the two finds the other's, and all others leave it to these.
    """
    return may_take(job) and job.stretches == stretch


def list_uncut(job: Job, cut: Collection[int]) -> list[int]:
    """Return the ranges of a job that should be under way, and are not cut."""
    if job.ranges is None or not may_take(job):
        return []
    return [number for number in job.ranges.ahead_of(job.stretches) if number not in cut]


def refuse_stretch(job: Job, number: int, why: str) -> Job:
    """Note why the next stretch is not taken. Chunks of those before go on."""
    if not may_take(job) or job.stretches != number or job.problem == why[:LONGEST_PROBLEM]:
        return job
    return replace(job, problem=why[:LONGEST_PROBLEM])


def end_growth(job: Job, previous: str, items: int | None, sums: Amounts) -> Job:
    """Note the declared end behind the last stretch. From now on the job ends with its chunks."""
    if not may_take(job) or job.chain != previous:
        return job
    declared = {**job.declared, **sums}
    items = job.declared_items if items is None else items
    ended = replace(job, growing=False, declared=declared, declared_items=items, problem=None)
    # A job that has not begun ends by its dispatch.
    return replace(ended, state=state_after_dispatch(ended)) if job.state is JobState.DISPATCHING else ended


def describe_growth(job: Job) -> str | None:
    """Say how far a growing job has come, for a person. None: it does not grow, or was stopped while it did."""
    if not job.growing or job.state in CLOSED:
        return None
    if job.ranges is not None:
        return f"is cut: {job.stretches:,} of {job.ranges.count:,} ranges, {job.items:,} so far"
    count = "1 stretch" if job.stretches == 1 else f"{job.stretches:,} stretches"
    return f"grows: {count}, {job.items:,} so far, end not declared"


def find_last_step(job: Job) -> datetime:
    """Return when the job last went on: no stretch came since its last chunk ended or was put."""
    return job.progressed_at or job.accepted_at
