"""The ledger in two tables. A job and its chunk rows share a partition, so that they change together or not at all.

A lost reply leaves open whether a write took effect. The library repeats a PUT and then reports a conflict with
itself. It does not repeat a POST. So every write leaves a nonce, and a write without a clear yes is read back by it.
"""

import json
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import TableClient, TableTransactionError, UpdateMode

from shared.azure import (
    LOST_RACE,
    MOST_GROUP_BYTES,
    Destination,
    Entity,
    GroupOperation,
    check_limits,
    entity_size,
    error_code,
    expecting_an_answer,
    write_group,
)
from shared.clock import Clock, SystemClock
from shared.errors import RowTooLargeError, StorageUnavailableError
from shared.ledger.entities import (
    CHUNK_PREFIX,
    EVENT_PREFIX,
    JOB_KEY,
    chunk_key,
    job_entity,
    job_of,
    row_entity,
    row_of_entity,
)
from shared.ledger.job_list import JobList
from shared.ledger.job_stamp import is_news, stamp
from shared.ledger.ledger import MOST_ROWS, Listed
from shared.ledger.records import ChunkRow, Job
from shared.outbox import JOB_EVENTS, OutgoingMessage
from shared.telemetry import describe_error, events, tell

#: Rows of a page. A gap between two chunks that exceeds it starts another query.
_PAGE: Final = 1000


class TableLedger:
    """A Ledger in the tables `jobs` and `jobindex`."""

    def __init__(
        self,
        jobs: TableClient,
        index: TableClient,
        new_nonce: Callable[[], str] = lambda: uuid.uuid4().hex,
        clock: Clock | None = None,
    ) -> None:
        self._jobs, self._new_nonce, self._clock = jobs, new_nonce, clock or SystemClock()
        self.list = JobList(index, jobs)

    def insert(self, job: Job) -> tuple[Job, bool]:
        """Insert a job, or return the job that already has this id. Either is in the list of jobs afterwards."""
        mine = stamp(job, self._new_nonce(), self._clock.now())
        with expecting_an_answer(f"insert job {job.job!r}"):
            try:
                metadata = self._jobs.create_entity(job_entity(mine))
                stored, is_new = replace(mine, etag=metadata["etag"]), True
            except AzureError:
                found = self.read(job.job)
                if found is None:
                    raise
                stored, is_new = found, found.nonce == mine.nonce
            # By the stored row: the next delivery after a crash writes the same.
            self.list.tell(stored)
        return stored, is_new

    def read(self, job: str) -> Job | None:
        """Return the job, or None."""
        with expecting_an_answer(f"read job {job!r}"):
            try:
                entity = self._jobs.get_entity(job, JOB_KEY)
            except ResourceNotFoundError:
                return None
        return job_of(entity, str(entity.metadata["etag"]))

    def rows(self, job: str) -> Iterator[ChunkRow]:
        """Yield the job's chunk rows in the order of their numbers, a page at a time."""
        return self._read_rows(job, CHUNK_PREFIX, CHUNK_PREFIX + "~")

    def rows_of(self, job: str, chunks: Collection[int]) -> Mapping[int, ChunkRow]:
        """Return the rows of these chunks that exist, by number."""
        wanted = set(chunks)
        found = (
            row
            for low, high in _split_at_gaps(sorted(wanted))
            for row in self._read_rows(job, chunk_key(low), chunk_key(high))
        )
        return {row.chunk: row for row in found if row.chunk in wanted}

    def commit(self, job: Job, rows: Sequence[ChunkRow] = (), messages: Sequence[OutgoingMessage] = ()) -> Job | None:
        """Write the job, rows and messages in one entity-group transaction: all or nothing."""
        now = self._clock.now()
        mine = stamp(job, self._new_nonce(), now)
        written = self._write(mine, rows, messages)
        if written is not None and is_news(job, mine, now):
            self._tell_news(written)
        return written

    def _write(self, mine: Job, rows: Sequence[ChunkRow], messages: Sequence[OutgoingMessage]) -> Job | None:
        stamped = [replace(row, nonce=mine.nonce) for row in rows]
        operations = _operations(mine, stamped, messages)
        with expecting_an_answer(f"write job {mine.job!r} with {len(rows)} chunks"):
            try:
                etags = write_group(self._jobs, operations)
            except AzureError as error:
                return self._prove_write(mine, stamped, error)
        return replace(mine, etag=etags[0])

    def unsent(self, owner: str) -> list[OutgoingMessage]:
        """Return the job's messages that are still stored, in the order of their names."""
        with expecting_an_answer(f"read the events of job {owner!r}"):
            return [_message_of(entity) for entity in self._list_between(owner, EVENT_PREFIX, EVENT_PREFIX + "~")]

    def forget(self, owner: str, sent: Sequence[OutgoingMessage]) -> None:
        """Delete messages that were sent. A message that is gone already is no error."""
        for message in sent:
            with expecting_an_answer(f"forget event {message.name!r} of job {owner!r}"):
                self._jobs.delete_entity(owner, EVENT_PREFIX + message.name)

    def remove_rows(self, job: str) -> Iterator[None]:
        """Remove the chunk rows of a buried job, and yield after each transaction."""
        with expecting_an_answer(f"remove the chunks of job {job!r}"):
            while keys := self._first_keys(job):
                entities = [{"PartitionKey": job, "RowKey": key} for key in keys]
                try:
                    write_group(self._jobs, [("delete", entity) for entity in entities])
                except TableTransactionError as refusal:
                    # Two sweeps at once: the other removed some of these. The rest is read again.
                    if error_code(refusal) != "ResourceNotFound":
                        raise
                yield

    def tell_list(self, job: Job) -> None:
        """Write the last word about a job into the list of jobs. Safe to repeat."""
        self.list.tell(job)

    def newest(self, limit: int) -> list[Listed]:
        """Return the latest jobs, the newest first."""
        return self.list.newest(limit)

    def _tell_news(self, job: Job) -> None:
        try:
            self.list.tell(job)
        except StorageUnavailableError as error:
            # The job is written. The list is a hint: the next news, or the tick, tells it.
            tell(events.JOB_UNLISTED, job=job.job, state=job.state.value, error=describe_error(error))

    def _first_keys(self, job: str) -> list[str]:
        found = self._list_between(job, CHUNK_PREFIX, CHUNK_PREFIX + "~", page=MOST_ROWS, select=["RowKey"])
        return [entity["RowKey"] for entity, _ in zip(found, range(MOST_ROWS), strict=False)]

    def _read_rows(self, job: str, low: str, high: str) -> Iterator[ChunkRow]:
        with expecting_an_answer(f"read the chunks of job {job!r}"):
            for entity in self._list_between(job, low, high):
                yield row_of_entity(entity, str(entity.metadata["etag"]))

    def _list_between(self, job: str, low: str, high: str, page: int = _PAGE, select: list[str] | None = None) -> Any:
        return self._jobs.query_entities(
            "PartitionKey eq @job and RowKey ge @low and RowKey le @high",
            parameters={"job": job, "low": low, "high": high},
            results_per_page=page,
            select=select,
        )

    def _prove_write(self, mine: Job, rows: Sequence[ChunkRow], error: AzureError) -> Job | None:
        """Return the job if its write took effect although the answer was not a yes, or None after a lost race."""
        found = self.read(mine.job)
        if found is not None and found.nonce == mine.nonce:
            return found
        if rows and self._is_mine(mine, rows[0]):
            # Written, and another writer has changed the job since: its totals include these rows.
            return replace(mine, etag="")
        if error_code(error) in LOST_RACE:
            return None
        # Not written so far. If the write is still on its way, the ETag decides between it and the caller's retry.
        raise error

    def _is_mine(self, mine: Job, row: ChunkRow) -> bool:
        found = self.rows_of(mine.job, [row.chunk]).get(row.chunk)
        return found is not None and found.nonce == mine.nonce


def _operations(job: Job, rows: Sequence[ChunkRow], messages: Sequence[OutgoingMessage]) -> list[GroupOperation]:
    """Build the transaction, the job first, or raise RowTooLargeError if Azure would refuse it."""
    own: GroupOperation = ("update", job_entity(job), _is_unchanged(job.etag))
    entities = [(row_entity(row), row.etag) for row in rows]
    entities += [(_message_entity(job.job, message), "") for message in messages]
    size = sum(entity_size(entity) for entity, _ in entities)
    if len(entities) > MOST_ROWS or size > MOST_GROUP_BYTES:
        raise RowTooLargeError(
            f"could not write job {job.job!r} with {len(entities)} rows of {size} bytes: a transaction takes "
            f"{MOST_ROWS} rows and {MOST_GROUP_BYTES} bytes beside the job; write fewer at a time"
        )
    return [
        own,
        *(("update", entity, _is_unchanged(etag)) if etag else ("create", entity) for entity, etag in entities),
    ]


def _is_unchanged(etag: str) -> dict[str, Any]:
    """Return the options that replace a whole row, only in the version that was read."""
    return {"mode": UpdateMode.REPLACE, "etag": etag, "match_condition": MatchConditions.IfNotModified}


def _message_entity(job: str, message: OutgoingMessage) -> Entity:
    row = {"PartitionKey": job, "RowKey": EVENT_PREFIX + message.name, "body": message.body.decode()}
    # A column only where a value is given: the event about the end of a job is just a name and a body.
    given = {
        "destination": None if message.destination == JOB_EVENTS else str(message.destination),
        "properties": json.dumps(dict(message.properties)) if message.properties else None,
        "session": message.session,
        "due": message.due,
    }
    return check_limits(row | {name: value for name, value in given.items() if value is not None})


def _message_of(row: Entity) -> OutgoingMessage:
    return OutgoingMessage(
        name=row["RowKey"].removeprefix(EVENT_PREFIX),
        destination=Destination.parse(row.get("destination", str(JOB_EVENTS))),
        body=row["body"].encode(),
        properties=json.loads(row.get("properties", "{}")),
        session=row.get("session"),
        due=row.get("due"),
    )


def _split_at_gaps(chunks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges of numbers without wide gaps, so that few pages hold them all."""
    start = 0
    for n, chunk in enumerate(chunks):
        if n + 1 == len(chunks) or chunks[n + 1] - chunk > _PAGE:
            yield chunks[start], chunk
            start = n + 1
