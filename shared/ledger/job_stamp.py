"""The stamp of each write of a job: its mark, the states that the job came to, and whether the list of jobs is due."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from shared.ledger.records import CLOSED, Job, JobState, Told

#: Lines of a job's story that are kept: a job that is replayed often goes through its states again and again.
FIRST_TOLD: Final = 10
LAST_TOLD: Final = 50
#: Characters of a line's note: all lines together fit their column.
LONGEST_NOTE: Final = 100
#: States that the list of jobs gets at once. It gets progress this often.
NEWS: Final = CLOSED | {JobState.HELD, JobState.PAUSED}
LISTED_EVERY: Final = timedelta(minutes=1)


def stamp(job: Job, nonce: str, now: datetime) -> Job:
    """Return the job as the write with this nonce stores it. A state or revision that it came to is in its story.

    The story of an earlier version's row is never begun: its past is not known.
    """
    mine = replace(job, nonce=nonce, story=_extend_story(job, now))
    return replace(mine, listed_at=now) if is_news(job, mine, now) else mine


def is_news(known: Job, mine: Job, now: datetime) -> bool:
    """Check whether the list of jobs gets the write of this job, by the row that was known before."""
    is_new_state = mine.story != known.story and known.state in NEWS
    return known.listed_at is None or is_new_state or _is_due(known, known.listed_at, now)


def _is_due(job: Job, listed_at: datetime, now: datetime) -> bool:
    """Check whether a job's progress is news: the first chunks that ended, and a minute later."""
    # Without a chunk that ended, a release would make a request more for each job. One that is finishing ends at once.
    if not job.ended_chunks or job.state is JobState.FINISHING:
        return False
    return now - listed_at >= LISTED_EVERY or (job.started_at is not None and listed_at < job.started_at)


def _extend_story(job: Job, now: datetime) -> tuple[Told, ...]:
    is_old = bool(job.etag) and not job.story
    last = job.story[-1] if job.story else None
    if is_old or (last is not None and (last.state, last.revision) == (job.state, job.revision)):
        return job.story
    told = (*job.story, Told(job.state, now, job.revision, _note_state(job)))
    return told if len(told) <= FIRST_TOLD + LAST_TOLD else told[:FIRST_TOLD] + told[-LAST_TOLD:]


def _note_state(job: Job) -> str:
    note = job.problem or ""
    if job.state is JobState.HELD:
        note = f"gate {job.gate}, epoch {job.held_epoch}"
    elif job.state is JobState.PAUSED and not note:
        note = f"{job.parked_chunks} of {job.chunks} chunks are parked"
    cut = note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - 1]}…"
    # JSON writes a control character as six.
    return "".join(one if one.isprintable() else " " for one in cut)
