"""What every store of jobs and chunk rows promises; two keep it: one in a table, one in memory."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shared.ledger.records import ChunkRow, Job

#: What one entity-group transaction takes beside the job's own row.
MOST_ROWS = 99


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of the list of jobs."""

    job: str
    accepted_at: datetime
    workload: str
    gate: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell the world about a job, stored with the state that it tells of."""

    name: str
    body: str


class Ledger(Protocol):
    """Jobs and their chunk rows.

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

    def commit(self, job: Job, rows: Sequence[ChunkRow] = (), event: Event | None = None) -> Job | None:
        """Write the job over the version whose ETag it carries, with rows and event, all or nothing.

        A row without an ETag is inserted and must not exist; one with an ETag replaces that version. The job that is
        returned has no ETag where it was proven by its rows that the write took effect and others have written since.
        """
        ...

    def events(self, job: str) -> list[Event]:
        """Return the events of the job that were not removed."""
        ...

    def remove_event(self, job: str, name: str) -> None:
        """Forget an event; safe to repeat."""
        ...

    def remove_rows(self, job: str) -> None:
        """Remove the chunk rows of a buried job; safe to repeat."""
        ...

    def newest(self, limit: int) -> list[Listed]:
        """Return the jobs accepted last, the newest first."""
        ...
