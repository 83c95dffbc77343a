"""The contract of a ledger, and `change`: the one loop that reads, decides and commits.

Within `counting`, each commit notes in the job's row how many storage requests the stage has made so far. Requests
after the last write of the row are not counted, because noting them would take another request.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from shared.azure import TABLE, Charge, RequestTally, charges, current_cause, tally_requests
from shared.clock import LOST_RACES, Retry
from shared.errors import ContentionError
from shared.ledger.records import BesideRow, ChunkRow, Job, JobState, StretchRow
from shared.outbox import OutboxStore, OutgoingMessage

#: Rows that one entity-group transaction takes beside the job's own row.
MOST_ROWS = 99


@dataclass(frozen=True, slots=True)
class Listed:
    """One job in the list of jobs, as the last news of it says."""

    job: str
    accepted_at: datetime
    workload: str
    gate: str | None
    #: None: a line of an earlier version, which has no more than this.
    state: JobState | None = None
    as_of: datetime | None = None
    revision: int = 1
    items: int = 0
    chunks: int = 0
    done: int = 0
    parked_chunks: int = 0
    deadline: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    problem: str | None = None
    #: The number of its first transaction. None also where an earlier version listed it, or before its plan was listed.
    first_id: int | None = None

    @property
    def ended_chunks(self) -> int:
        """The number of chunks that were done or parked."""
        return self.done + self.parked_chunks


class Ledger(OutboxStore, Protocol):
    """Jobs, their chunk rows and the messages that their state caused.

    A write returns None if it was refused, or if its reply was lost and nothing proves that it took effect. The caller
    then reads again and decides again. It never adds to an earlier reading. StorageUnavailableError means that storage
    did not answer at all.
    """

    def insert(self, job: Job) -> tuple[Job, bool]:
        """Insert a job and return it with True, or return the job that already has this id with False."""
        ...

    def read(self, job: str) -> Job | None:
        """Return the job, or None."""
        ...

    def name_waiter(self, job: str, waiter: str) -> bool:
        """Leave the name of a job that waits for one that was not inserted. It is in that one's row from the beginning.

        False: the other job was inserted by now, or so many wait for it that no name more fits.
        """
        ...

    def rows(self, job: str) -> Iterator[ChunkRow]:
        """Yield the job's chunk rows in the order of their numbers, a page at a time."""
        ...

    def rows_of(self, job: str, chunks: Collection[int]) -> Mapping[int, ChunkRow]:
        """Return the rows of these chunks that exist, by number."""
        ...

    def stretches_of(self, job: str) -> list[StretchRow]:
        """Return the rows of the job's stretches behind the first one, in their order."""
        ...

    def commit(self, job: Job, rows: Sequence[BesideRow] = (), messages: Sequence[OutgoingMessage] = ()) -> Job | None:
        """Replace the version of the job whose ETag it carries, with rows and messages, all or nothing.

        A row without an ETag is inserted and must not exist. A row with an ETag replaces that version. The returned job
        has no ETag if only its rows proved the write: other writers have changed the job since.
        """
        ...

    def remove_rows(self, job: str) -> Iterator[None]:
        """Remove the chunk rows of a buried job, and yield after each group. Safe to repeat, and to stop."""
        ...

    def remove_stretches(self, job: str) -> Iterator[None]:
        """Remove the rows of the stretches of a buried job, as `remove_rows`."""
        ...

    def tell_list(self, job: Job) -> None:
        """Write the last word about a job into the list of jobs. Safe to repeat."""
        ...

    def tell_needs(self, job: Job, *, is_in_time: bool = False) -> bool:
        """Write again which needs a job has, and end those that it had. False: storage did not answer.

        `is_in_time`: the danger to its deadline is over. No request for a job that never had a need. Safe to repeat.
        """
        ...

    def newest(self, limit: int) -> list[Listed]:
        """Return the latest jobs, the newest first."""
        ...


class Written(NamedTuple):
    """The job, with the rows and messages that one commit writes together with it."""

    job: Job
    rows: Sequence[BesideRow] = ()
    messages: Sequence[OutgoingMessage] = ()


def change(  # noqa: PLR0913 - keywords, all but `tried` with a default
    ledger: Ledger,
    job: str,
    decide: Callable[[Job], Job | Written],
    *,
    tried: str,
    known: Job | None = None,
    retry: Retry = LOST_RACES,
    is_counted: bool = True,
) -> Job | None:
    """Change a job: read it unless it is `known`, decide, commit. After a lost race, read and decide again.

    `decide` returns the same object to write nothing. It must recognize its own earlier work, which a lost reply can
    leave behind. The result is None if the job is gone. After the last attempt, ContentionError says which change was
    `tried`. A retry that gives up returns the job without the change instead. `is_counted`: within `counting`, this job's
    row notes the requests. Else the next row does that is changed.
    """
    found = known
    for _ in retry.tries():
        found = found or ledger.read(job)
        if found is None:
            return None
        decided = decide(found)
        if decided is found:
            return found
        group = decided if isinstance(decided, Written) else Written(decided)
        written = commit(ledger, *group) if is_counted else ledger.commit(*group)
        if written is not None:
            return written
        found = None
    if retry.give_up:
        return ledger.read(job)
    raise ContentionError(f"could not {tried}: others changed job {job!r} {retry.attempts} times in a row; try again")


class _Count:
    """The requests that a stage made for one job, and how many of them its row already counts."""

    def __init__(self, tally: RequestTally) -> None:
        self._tally, self._noted = tally, Counter[str]()

    def commit(
        self, ledger: Ledger, job: Job, rows: Sequence[BesideRow], messages: Sequence[OutgoingMessage]
    ) -> Job | None:
        # The commit itself is a request too.
        total = Counter(charges(self._tally)) + Counter([str(Charge(TABLE, current_cause().value))])
        written = ledger.commit(job.add_requests(total - self._noted), rows, messages)
        if written is not None:
            self._noted = total
        return written

    def insert(self, ledger: Ledger, job: Job) -> tuple[Job, bool]:
        total = Counter(charges(self._tally)) + Counter({str(Charge(TABLE, current_cause().value)): _OF_AN_INSERT})
        found, is_new = ledger.insert(job.add_requests(total - self._noted))
        if is_new:
            self._noted = total
        return found, is_new


#: The row, and its line in the list of jobs.
_OF_AN_INSERT: Final = 2
_count: ContextVar[_Count | None] = ContextVar("count", default=None)


@contextmanager
def counting() -> Iterator[RequestTally]:
    """Count the requests of a stage for one job. Its threads need the caller's context (`copy_context().run`)."""
    with tally_requests() as tally:
        token = _count.set(_Count(tally))
        try:
            yield tally
        finally:
            _count.reset(token)


def insert(ledger: Ledger, job: Job) -> tuple[Job, bool]:
    """Insert into the ledger. Within `counting`, note all requests so far, these included: no commit may follow."""
    count = _count.get()
    return ledger.insert(job) if count is None else count.insert(ledger, job)


def commit(
    ledger: Ledger, job: Job, rows: Sequence[BesideRow] = (), messages: Sequence[OutgoingMessage] = ()
) -> Job | None:
    """Commit to the ledger. Within `counting`, note all requests that no commit has noted yet, this one included."""
    count = _count.get()
    return ledger.commit(job, rows, messages) if count is None else count.commit(ledger, job, rows, messages)
