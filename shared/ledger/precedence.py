"""Decides how a job stands to those that must end before it: which are passed, for which it waits, and who is waited for.

A job waits for one at a time, in the order of its submission. So N of them cost N reads and at most N writes. The name of
the one that waits is written into the row of the other by that row's ETag. Either this write sees the end of the other,
or that end sees the name, and sends a hint. Nothing here makes a request.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from shared.grammar import room_job
from shared.ledger.records import Job, JobState, Sources
from shared.payload import FromJobs, Submission

#: Names in one row. A further job that only waits finds the end by its pointer, each minute.
MOST_WAITERS: Final = 100
#: Rows that are followed in search of a circle.
LONGEST_CHAIN: Final = 100


class Passage(Enum):
    """How a job stands that another one waits for."""

    #: It is complete, and what it made counts.
    PASSED = "passed"
    #: It may become complete.
    WAITS = "waits"
    #: It never will, unless a person acts on the one that waits.
    BROKEN = "broken"


class Ruling(NamedTuple):
    """A standing, and why for a person: what follows the name of the job."""

    standing: Passage
    words: str = ""


def follow_others(job: Job, room: str, submission: Submission) -> Job:
    """Return the new job of a submission as it waits for others. It gets a plan when all of them are passed."""
    content = submission.content
    sources = Sources(len(content.jobs), content.sums, content.files) if isinstance(content, FromJobs) else None
    waits = tuple(room_job(room, name) for name in submission.waits)
    return replace(job, state=JobState.HELD, waits=waits, from_jobs=sources)


def judge_predecessor(found: Job | None, *, after_parked: bool = False) -> Ruling:
    """Say whether a job that waits for this one passes it."""
    if found is None:
        return Ruling(Passage.WAITS, "was not accepted yet")
    ended = found.ended if found.state is JobState.BURIED else found.state.value
    by = f" by {found.by}" if found.by else ""
    why = f": {found.problem}" if found.problem else ""
    if ended == JobState.COMPLETE or (after_parked and ended == JobState.COMPLETED_WITH_PARKED):
        return Ruling(Passage.PASSED)
    if found.state in {JobState.STOPPED, JobState.ERASED}:
        return Ruling(Passage.BROKEN, f"was {found.state.value}{by}{why}")
    if found.state is JobState.BURIED:
        return Ruling(Passage.BROKEN, f"was buried, and was {ended}" if ended else "was buried by an earlier version")
    if found.state is JobState.COMPLETED_WITH_PARKED:
        return Ruling(Passage.WAITS, f"has parked transactions: sluice parked list --job {found.job}")
    return Ruling(Passage.WAITS, f"is {found.state.value}{by if found.state is JobState.PAUSED else ''}{why}")


def add_waiter(found: Job, waiter: str, *, is_source: bool, after_parked: bool = False) -> Job:
    """Add the name of a job that waits for this one, or is made from it. One that is passed already needs no other name.

    A source gets the name in any case: by it an erasure finds what was made from a job.
    """
    if waiter in found.waiters or len(found.waiters) >= MOST_WAITERS:
        return found
    is_passed = judge_predecessor(found, after_parked=after_parked).standing is Passage.PASSED
    if is_passed and not is_source:
        return found
    return replace(found, waiters=(*found.waiters, waiter))


def note_waits_at(job: Job, at: int) -> Job:
    """Note how many jobs were passed. One that waits for others no more stays unchanged."""
    if not job.awaits_others or job.state is not JobState.HELD or job.waits_at == at:
        return job
    return replace(job, waits_at=at)


def waits_now_for(job: Job) -> str | None:
    """Return the job that this one waits for now. None: it waits for none."""
    return job.waits[job.waits_at] if job.awaits_others and job.waits_at < len(job.waits) else None


def find_circle(job: Job, read: Callable[[str], Job | None], known: Mapping[str, Job]) -> list[str] | None:
    """Return the jobs of a circle that begins and ends with this one. `known` saves reads."""
    chain = [job.job]
    following: Job | None = job
    while following is not None and (name := waits_now_for(following)) is not None and len(chain) <= LONGEST_CHAIN:
        chain.append(name)
        if name == job.job:
            return chain
        following = known.get(name) or read(name)
    return None


def is_made_from(job: Job, source: str) -> bool:
    """Check whether a job's transactions are what another one made, or will be."""
    return source in job.used or source in job.sources
