"""Credits results to a job: which are new, which are known, which are lies, and what the job is afterwards; pure.

The same results in any order, any number of times and in any grouping leave the same totals: the set of chunk rows
decides, and a done row outranks a parked one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from shared.ledger.records import ChunkRow, ChunkState, Job, JobState
from shared.ledger.results import misfit, row_of
from shared.parked.policy import DEFAULT_POLICY, PoisonPolicy
from shared.pipeline.messages import Result

#: Sums and causes by name that one job's row may carry; a row has a limit, and names come from outside.
MOST_NAMES: Final = 64
LONGEST_NAME: Final = 100
#: Chunks of a job in one of these may still be outstanding.
_UNFINISHED: Final = frozenset({JobState.HELD, JobState.DISPATCHING, JobState.RUNNING, JobState.PAUSED})


@dataclass(frozen=True, slots=True)
class Refused:
    """A result that cannot belong to its job, and why."""

    result: Result
    reason: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """What one group of results does to its job."""

    job: Job
    inserts: tuple[ChunkRow, ...] = ()
    #: Done rows that take the place of parked ones; they carry the ETag of the row that they replace.
    replaces: tuple[ChunkRow, ...] = ()
    duplicates: tuple[Result, ...] = ()
    refused: tuple[Refused, ...] = ()
    #: Whether this settlement ended the last chunk, so that whoever commits it sends the finish message.
    finish_due: bool = False

    @property
    def rows(self) -> tuple[ChunkRow, ...]:
        """Everything to write beside the job."""
        return (*self.inserts, *self.replaces)


@dataclass(slots=True)
class _Book:
    """The job and its rows as they are while a group is gone through."""

    job: Job
    stored: Mapping[int, ChunkRow]
    fresh: dict[int, ChunkRow] = field(default_factory=dict)
    duplicates: list[Result] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


def settle(
    job: Job,
    stored: Mapping[int, ChunkRow],
    results: Iterable[Result],
    now: datetime,
    policy: PoisonPolicy = DEFAULT_POLICY,
) -> Settlement:
    """Return what to write for these results; `stored` are the rows known to exist, which may be too few.

    A row that exists without being known makes the write fail as a whole; then read it and decide again.
    """
    book = _Book(job, stored)
    for result in results:
        reason = misfit(job, result) or _entered(book, row_of(result, now), result)
        if reason:
            book.refused.append(Refused(result, reason))
    moved = _moved_on(job, book.job, now, policy) if book.fresh else job
    return Settlement(
        moved,
        tuple(row for row in book.fresh.values() if row.chunk not in stored),
        tuple(row for row in book.fresh.values() if row.chunk in stored),
        tuple(book.duplicates),
        tuple(book.refused),
        finish_due=bool(book.fresh) and moved.state is JobState.FINISHING,
    )


def _entered(book: _Book, row: ChunkRow, result: Result) -> str:
    """Enter the row of one result into the book, or say why it is refused."""
    known = book.fresh.get(row.chunk) or book.stored.get(row.chunk)
    if known is not None and not _outranks(row, known):
        if _contradicts(row, known):
            return f"chunk {row.chunk} is done with result {known.hash}, this one says {row.hash}"
        book.duplicates.append(result)
        return ""
    after = credited(book.job, row, known, result.requests)
    if not _has_room(after):
        return f"a job has at most {MOST_NAMES} sums and causes, with names of at most {LONGEST_NAME} characters"
    book.job = after
    # A row that takes a stored one's place carries that one's ETag; between results of one group there is none yet.
    book.fresh[row.chunk] = replace(row, etag="" if known is None else known.etag)
    return ""


def _outranks(row: ChunkRow, known: ChunkRow) -> bool:
    return known.state is ChunkState.PARKED and row.state is ChunkState.DONE


def _contradicts(row: ChunkRow, known: ChunkRow) -> bool:
    """Whether two results of one run differ; those of different revisions may, and the first one stays."""
    both_done = known.state is ChunkState.DONE and row.state is ChunkState.DONE
    return both_done and known.revision == row.revision and known.hash != row.hash


def credited(job: Job, row: ChunkRow, known: ChunkRow | None, requests: Mapping[str, int]) -> Job:
    """Return the job with one more row in its totals, in place of the one that was known."""
    before = 0 if known is None else 1
    is_done = row.state is ChunkState.DONE
    totals = job.totals if known is None else job.totals - known.totals
    return replace(
        job.charged(requests),
        totals=totals + row.totals,
        done=job.done + is_done,
        parked_chunks=job.parked_chunks + (not is_done) - before,
        milliseconds=job.milliseconds + row.milliseconds,
    )


def _has_room(job: Job) -> bool:
    tallies = (job.totals.accepted, job.totals.rejected, job.totals.parked)
    names = {name for tally in tallies for name in tally.sums} | set(job.requests)
    return len(names) <= MOST_NAMES and all(len(name) <= LONGEST_NAME for name in names)


def _moved_on(before: Job, job: Job, now: datetime, policy: PoisonPolicy) -> Job:
    """Return the credited job in the state that follows."""
    job = replace(job, progressed_at=now, started_at=job.started_at or now)
    if before.has_ended:
        # Whatever a finisher of the older revision still writes is fenced off by the new number, even before its end:
        # it may have read the rows before this one was replaced.
        return replace(job, state=JobState.FINISHING, revision=job.revision + 1, finished_at=None, problem=None)
    if job.has_ended:
        return replace(job, state=JobState.FINISHING)
    # What a person has seen already does not count.
    if job.state in _UNFINISHED and policy.pauses(job.parked_chunks - job.forgiven, job.chunks):
        return replace(job, state=JobState.PAUSED)
    return job
