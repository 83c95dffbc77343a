"""The ledger in memory, under the same contract as the one in a table: for trials and for tests of what stands on it."""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from threading import Lock

from shared.ledger.ledger import Listed
from shared.ledger.precedence import MOST_WAITERS
from shared.ledger.records import BesideRow, ChunkRow, Job, StretchRow
from shared.outbox import OutgoingMessage


class MemoryLedger:
    """A Ledger for one process; safe from several threads."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._rows: dict[str, dict[int, ChunkRow]] = {}
        self._stretches: dict[str, list[StretchRow]] = {}
        self._messages: dict[str, dict[str, OutgoingMessage]] = {}
        self._early: dict[str, tuple[str, ...]] = {}
        self._versions = itertools.count(1)
        self._lock = Lock()

    def insert(self, job: Job) -> tuple[Job, bool]:
        """Insert a new job, or return the one that has this id."""
        with self._lock:
            if job.job in self._jobs:
                return self._jobs[job.job], False
            early = self._early.pop(job.job, job.waiters)
            self._jobs[job.job] = replace(job, waiters=early, etag=self._version())
            return self._jobs[job.job], True

    def name_waiter(self, job: str, waiter: str) -> bool:
        """Leave a name for a job that has no row."""
        with self._lock:
            names = self._early.get(job, ())
            if job in self._jobs or (waiter not in names and len(names) >= MOST_WAITERS):
                return False
            self._early[job] = names if waiter in names else (*names, waiter)
            return True

    def read(self, job: str) -> Job | None:
        """Return the job, or None."""
        with self._lock:
            return self._jobs.get(job)

    def rows(self, job: str) -> Iterator[ChunkRow]:
        """Yield the job's chunk rows by number."""
        with self._lock:
            found = sorted(self._rows.get(job, {}).items())
        yield from (row for _, row in found)

    def rows_of(self, job: str, chunks: Collection[int]) -> Mapping[int, ChunkRow]:
        """Return the rows that exist of these chunks."""
        with self._lock:
            found = self._rows.get(job, {})
            return {chunk: found[chunk] for chunk in chunks if chunk in found}

    def stretches_of(self, job: str) -> list[StretchRow]:
        """Return the rows of the job's stretches."""
        with self._lock:
            return list(self._stretches.get(job, ()))

    def commit(self, job: Job, rows: Sequence[BesideRow] = (), messages: Sequence[OutgoingMessage] = ()) -> Job | None:
        """Write the job, rows and messages, if every version is the expected one."""
        with self._lock:
            stored = self._rows.setdefault(job.job, {})
            chunks = [row for row in rows if isinstance(row, ChunkRow)]
            if self._jobs[job.job].etag != job.etag or any(_etag(stored, row) != row.etag for row in chunks):
                return None
            self._stretches.setdefault(job.job, []).extend(row for row in rows if isinstance(row, StretchRow))
            self._messages.setdefault(job.job, {}).update({message.name: message for message in messages})
            stored.update({row.chunk: replace(row, etag=self._version()) for row in chunks})
            self._jobs[job.job] = replace(job, etag=self._version())
            return self._jobs[job.job]

    def unsent(self, owner: str) -> list[OutgoingMessage]:
        """Return the messages of the job that were not forgotten."""
        with self._lock:
            return sorted(self._messages.get(owner, {}).values(), key=lambda message: message.name)

    def forget(self, owner: str, sent: Sequence[OutgoingMessage]) -> None:
        """Forget messages."""
        with self._lock:
            for message in sent:
                self._messages.get(owner, {}).pop(message.name, None)

    def remove_rows(self, job: str) -> Iterator[None]:
        """Remove the chunk rows of a buried job."""
        with self._lock:
            found = self._rows.pop(job, None)
        if found:
            yield

    def remove_stretches(self, job: str) -> Iterator[None]:
        """Remove the rows of its stretches."""
        with self._lock:
            found = self._stretches.pop(job, None)
        if found:
            yield

    def tell_list(self, job: Job) -> None:
        """Write nothing: here the list is read from the jobs themselves."""

    def tell_needs(self, job: Job, *, is_in_time: bool = False) -> bool:
        """Write nothing."""
        return True

    def newest(self, limit: int) -> list[Listed]:
        """Return the jobs accepted last, the newest first."""
        with self._lock:
            jobs = sorted(self._jobs.values(), key=lambda job: (job.accepted_at, job.job), reverse=True)
        return [Listed(job.job, job.accepted_at, job.workload, job.gate) for job in jobs[:limit]]

    def _version(self) -> str:
        return f"v{next(self._versions)}"


def _etag(stored: Mapping[int, ChunkRow], row: ChunkRow) -> str:
    known = stored.get(row.chunk)
    return "" if known is None else known.etag
