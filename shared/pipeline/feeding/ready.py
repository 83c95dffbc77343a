"""Ready rows: jobs that may start, and of which not all chunks were put. They are in the index of unfinished work.

Beside the row of a job, another one says by its ETag whether the room has news. A pointer leads the tick to all of them. The
three are written together, and each goes by its own ETag: one that was written again stays. So a room
is forgotten only while no job came to it.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import delete_rows, expecting_an_answer, write_group
from shared.grammar import room_of
from shared.ledger import Job
from shared.pending import AT_ONCE, FEED_POINTER, PENDING, Pointer

#: Behind every due time, so that no tick reads them.
_READY, _ROOM = "ready|", "readyroom|"
#: Behind every id and every name.
_END: Final = "~~"
#: Rows of a room that one request reads. More than that wait for these.
MOST_ROWS: Final = 250
#: The pointer that stays as long as a job waits for its turn.
FEED: Final = Pointer(FEED_POINTER, AT_ONCE, "ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyJob:
    """A job that waits for its turn, as its row says. The job's own row decides."""

    job: str
    accepted_at: datetime
    chunks: int
    #: The first chunk that may have to be put.
    cursor: int
    workload: str
    items: int
    deadline: datetime | None = None
    #: Whether chunks above the cursor may have been put.
    is_again: bool = False
    etag: str = ""

    @classmethod
    def of(cls, job: Job, *, is_again: bool = False) -> "ReadyJob":
        """Return the fields that are noted of a job."""
        return cls(
            is_again=is_again,
            job=job.job,
            accepted_at=job.accepted_at,
            chunks=job.chunks,
            cursor=job.dispatch_cursor if job.again_from is None else job.again_from,
            workload=job.workload,
            items=job.items,
            # It was for the first run.
            deadline=None if job.run_from else job.deadline,
        )

    @property
    def row_key(self) -> str:
        """The key of its row: the oldest job of a room first. Behind the room there is a place for a tenant."""
        return f"{_READY}{room_of(self.job)}||{_text(self.accepted_at)}|{self.job}"


class ReadyTable:
    """The rows of jobs that wait for their turn."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def add(self, job: ReadyJob) -> None:
        """Write the row of a job, over an equal one too. Makes one request."""
        row = {
            "chunks": job.chunks,
            "cursor": job.cursor,
            "workload": job.workload,
            "items": job.items,
            "deadline": _text(job.deadline) if job.deadline else "",
            "is_again": job.is_again,
        }
        keys = (FEED.row_key, job.row_key, _ROOM + room_of(job.job))
        options = {"mode": UpdateMode.REPLACE}
        with expecting_an_answer(f"note that job {job.job!r} waits for its turn"):
            write_group(
                self._table,
                [("upsert", _key(key) | (row if key == job.row_key else {}), options) for key in keys],
            )

    def rooms(self) -> dict[str, str]:
        """Return the rooms in which jobs wait, each with the ETag that says whether it has news. Makes one request."""
        return {row["RowKey"].removeprefix(_ROOM): str(row.metadata["etag"]) for row in self._read(_ROOM, None)}

    def read(self, room: str) -> list[ReadyJob]:
        """Return the jobs of a room that waits longest, the oldest first. Makes one request."""
        return [_job_of(row) for row in self._read(f"{_READY}{room}|", MOST_ROWS)]

    def remove(self, jobs: Sequence[ReadyJob]) -> None:
        """Remove the rows of jobs. One that was written again since it was read stays."""
        with expecting_an_answer("note that jobs had their turn"):
            delete_rows(self._table, [(PENDING, job.row_key, job.etag) for job in jobs])

    def forget_room(self, room: str, etag: str) -> None:
        """Remove the row of a room in which no job was left after this ETag was read."""
        self._delete(_ROOM + room, etag)

    def read_pointer(self) -> Pointer | None:
        """Return the pointer with its ETag, or None if it is gone. Makes one request."""
        with expecting_an_answer("read the pointer to jobs that wait"), suppress(ResourceNotFoundError):
            return replace(FEED, etag=str(self._table.get_entity(PENDING, FEED.row_key).metadata["etag"]))
        return None

    def forget_pointer(self, pointer: Pointer) -> None:
        """Remove the pointer, unless a job came since it was read."""
        self._delete(pointer.row_key, pointer.etag)

    def _delete(self, key: str, etag: str) -> None:
        with expecting_an_answer("forget that jobs wait for their turn"), suppress(ResourceModifiedError):
            self._table.delete_entity(PENDING, key, etag=etag, match_condition=MatchConditions.IfNotModified)

    def _read(self, prefix: str, most: int | None) -> Iterator[Any]:
        known = {"partition": PENDING, "first": prefix, "last": prefix + _END}
        wanted = "PartitionKey eq @partition and RowKey ge @first and RowKey lt @last"
        with expecting_an_answer("read what waits for its turn"):
            rows = self._table.query_entities(wanted, parameters=known, results_per_page=most)
            yield from rows if most is None else next(rows.by_page(), ())


def _key(row_key: str) -> dict[str, Any]:
    return {"PartitionKey": PENDING, "RowKey": row_key}


def _job_of(row: Any) -> ReadyJob:
    accepted_at, job = row["RowKey"].split("|", 4)[3:]
    return ReadyJob(
        job=job,
        accepted_at=datetime.fromisoformat(accepted_at),
        chunks=int(row["chunks"]),
        cursor=int(row["cursor"]),
        workload=row["workload"],
        items=int(row["items"]),
        deadline=datetime.fromisoformat(row["deadline"]) if row["deadline"] else None,
        is_again=bool(row["is_again"]),
        etag=str(row.metadata["etag"]),
    )


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
