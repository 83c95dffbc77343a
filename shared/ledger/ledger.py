"""The contract of every store of jobs and chunk rows, and `change`: the one loop that reads, decides and commits.

Within `counting`, each commit notes in the job's row how many storage requests its stages made so far. Requests after
the last write of the row are in no count: noting them would be one more request.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from shared.azure import TABLE, Charge, RequestTally, charges, current_cause, tally_requests
from shared.errors import ContentionError
from shared.ledger.records import ChunkRow, Job
from shared.outbox import OutboxStore, OutgoingMessage
from shared.retry import LOST_RACES, Retry

#: What one entity-group transaction takes beside the job's own row.
MOST_ROWS = 99


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list of jobs."""

    job: str
    accepted_at: datetime
    workload: str
    gate: str | None


class Ledger(OutboxStore, Protocol):
    """Jobs, their chunk rows and the messages that their state caused.

    Writes answer None when they were refused, or when a lost reply leaves it unproven that they took effect: read
    again and decide again. Nothing may ever be added to what was read before. Where storage does not answer at all,
    StorageUnavailableError is raised.
    """

    def insert(self, job: Job) -> tuple[Job, bool]:
        """Insert a new job, and say whether it was new; else return the one that has this id."""
        ...

    def read(self, job: str) -> Job | None:
        """Return the job, or None."""
        ...

    def rows(self, job: str) -> Iterator[ChunkRow]:
        """Yield the job's chunk rows by number, a page at a time."""
        ...

    def rows_of(self, job: str, chunks: Collection[int]) -> Mapping[int, ChunkRow]:
        """Return the rows that exist of these chunks."""
        ...

    def commit(self, job: Job, rows: Sequence[ChunkRow] = (), messages: Sequence[OutgoingMessage] = ()) -> Job | None:
        """Write the job over the version whose ETag it carries, with rows and messages, all or nothing.

        A row without an ETag is inserted and must not exist; one with an ETag replaces that version. The job that is
        returned has no ETag where it was proven by its rows that the write took effect and others have written since.
        """
        ...

    def remove_rows(self, job: str) -> None:
        """Remove the chunk rows of a buried job; safe to repeat."""
        ...

    def newest(self, limit: int) -> list[Listed]:
        """Return the jobs accepted last, the newest first."""
        ...


class Written(NamedTuple):
    """What one commit writes: the job, and what must change together with it."""

    job: Job
    rows: Sequence[ChunkRow] = ()
    messages: Sequence[OutgoingMessage] = ()


def change(  # noqa: PLR0913 - keywords, each with a default but the words of the error
    ledger: Ledger,
    job: str,
    decide: Callable[[Job], Job | Written],
    *,
    tried: str,
    known: Job | None = None,
    retry: Retry = LOST_RACES,
) -> Job | None:
    """Read the job unless it is `known`, decide, commit; after a lost race, read and decide again.

    `decide` returns the same object to write nothing. It must recognize its own earlier work, which a lost reply can
    leave behind. None: the job is gone. After the last attempt, ContentionError says which change was `tried`; where
    the retry gives up instead, the job is returned without the change.
    """
    found = known
    for _ in retry.tries():
        found = found or ledger.read(job)
        if found is None:
            return None
        decided = decide(found)
        if decided is found:
            return found
        written = commit(ledger, *(decided if isinstance(decided, Written) else Written(decided)))
        if written is not None:
            return written
        found = None
    if retry.give_up:
        return ledger.read(job)
    raise ContentionError(f"could not {tried}: others changed job {job!r} {retry.attempts} times in a row; try again")


class _Count:
    """The requests that a stage made for one job, and how many of them its row has."""

    def __init__(self, tally: RequestTally) -> None:
        self._tally, self._noted = tally, Counter[str]()

    def commit(
        self, ledger: Ledger, job: Job, rows: Sequence[ChunkRow], messages: Sequence[OutgoingMessage]
    ) -> Job | None:
        # The commit itself is a request too.
        made = Counter(charges(self._tally)) + Counter([str(Charge(TABLE, current_cause().value))])
        written = ledger.commit(job.add_requests(made - self._noted), rows, messages)
        if written is not None:
            self._noted = made
        return written


_count: ContextVar[_Count | None] = ContextVar("count", default=None)


@contextmanager
def counting() -> Iterator[RequestTally]:
    """Count what a stage requests for one job; threads need their caller's context (`copy_context().run`)."""
    with tally_requests() as tally:
        token = _count.set(_Count(tally))
        try:
            yield tally
        finally:
            _count.reset(token)


def commit(
    ledger: Ledger, job: Job, rows: Sequence[ChunkRow] = (), messages: Sequence[OutgoingMessage] = ()
) -> Job | None:
    """Commit as the ledger does; within `counting`, with every request that no commit has noted, this one included."""
    count = _count.get()
    return ledger.commit(job, rows, messages) if count is None else count.commit(ledger, job, rows, messages)
