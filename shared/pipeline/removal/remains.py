"""All places where transactions of a job can be: their removal when the job is erased, and the search for bytes that are left.

- the bytes that retention removes, outputs and totals
- entries with their bytes, notes, and messages above the bound at the door
- words of exceptions in causes and needs
- the row of its turn, the row behind its gate, and its line in the list

Each part may be repeated and killed anywhere. Rows go in groups: between two of them a tick may end.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, NamedTuple

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableClient

from shared.azure import delete_rows, expecting_an_answer
from shared.grammar import SHA256, end_of_shards, room_job, room_of
from shared.ledger import Job, JobList, Ledger
from shared.parked import CauseIndex, Overflow, ParkedTable, notes_of
from shared.payload import stretch_folder
from shared.pending import PENDING
from shared.pipeline.feeding.ready import ReadyJob
from shared.pipeline.removal.job_bytes import JobBytes, remove_blob, remove_folder
from shared.topology import PLANS, payload_container
from shared.watch import WatchTable

#: The places that are looked at. The other tables and containers have ids and counts of jobs, and no transaction.
TABLES: Final = ("jobs", "jobindex", "nights", "totals", "parked", "decisions", "pending", "held")
CONTAINERS: Final = ("payloads", PLANS, "results", "outputs", "parked")


class _Rows(NamedTuple):
    """Rows that are a job's alone."""

    table: str
    wanted: str
    values: Mapping[str, str]


def _rows_of(job: Job) -> Iterator[_Rows]:
    of_one = "PartitionKey eq @partition and RowKey eq @row"
    shards = {"first": job.job, "end": end_of_shards(job.job)}
    yield _Rows("totals", "PartitionKey ge @first and PartitionKey lt @end", shards)
    partition, first, last = notes_of(job.job)
    notes = {"partition": partition, "first": first, "last": last}
    yield _Rows("parked", "PartitionKey eq @partition and RowKey ge @first and RowKey lt @last", notes)
    yield _Rows("pending", of_one, {"partition": PENDING, "row": ReadyJob.of(job).row_key})
    if job.gate is not None:
        yield _Rows("held", of_one, {"partition": job.gate, "row": job.job})


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """Removes and finds remains of erased jobs. One per process."""

    ledger: Ledger
    list: JobList
    bytes: JobBytes
    table: Callable[[str], TableClient]
    parked: ParkedTable
    causes: CauseIndex
    overflow: Overflow
    watch: WatchTable

    def remove(self, job: Job) -> Iterator[None]:
        """Remove all that is there of an erased job, and yield after each group. Its event stays until it is sent."""
        self.list.tell(job)
        self.watch.end_all(job.job, job.erased_at or job.listed_at or job.accepted_at)
        yield from self.bytes.remove_kept(job)
        yield from self._remove_published(job)
        yield from remove_folder(self.bytes.container("outputs"), f"{job.job}/")
        for rows in _rows_of(job):
            yield from self._remove_rows(rows)
        for entries in self.parked.read_all_of(job.job):
            self.parked.forget(entries)
            yield
        yield from remove_folder(self.bytes.container("parked"), f"{job.job}/")
        self.causes.forget_words(job.job)
        self.overflow.leave_out(job.job, room_of(job.job))
        yield

    def find(self, job: Job) -> Mapping[str, int]:
        """Return how much is there of an erased job, by its place. Empty: nothing is."""
        found = Counter[str]()
        found["jobs"] = sum(1 for _ in self.ledger.rows(job.job)) + len(self.ledger.unsent(job.job))
        found["jobs"] += sum(1 for _ in self.ledger.stretches_of(job.job))
        found["jobindex"] = self.list.has_former_news(job)
        for rows in _rows_of(job):
            found[rows.table] += sum(1 for _ in self._query(rows))
        found["parked"] += sum(len(entries) for entries in self.parked.read_all_of(job.job))
        found["decisions"] = self.causes.count_of(job.job) + self.watch.count_about(job.job)
        for name in (PLANS, "results", "outputs", "parked"):
            found[f"blobs in {name}"] = sum(1 for _ in _list(self.bytes.container(name), f"{job.job}/"))
        found["blobs in parked"] += self.overflow.count_of(job.job, room_of(job.job))
        found["blobs in payloads"] = sum(1 for _ in self._list_published(job))
        return {place: number for place, number in sorted(found.items()) if number}

    def _remove_published(self, job: Job) -> Iterator[None]:
        container = self.bytes.container(payload_container(room_of(job.job)))
        for name in self._list_published(job):
            remove_blob(container, name)
            yield

    def _list_published(self, job: Job) -> Iterator[str]:
        """Yield the blobs in the room's container that are this job's alone, and the file that it was made from."""
        room = room_of(job.job)
        container, folder = self.bytes.container(payload_container(room)), job.job.removeprefix(room_job(room, ""))
        names = _list(container, f"{folder}/")
        of_stretches = stretch_folder(folder)
        yield from (
            name for name in names if SHA256.fullmatch(name.removeprefix(f"{folder}/")) or name.startswith(of_stretches)
        )
        if job.file is not None:
            yield from (name for name in _list(container, job.file) if name == job.file)

    def _remove_rows(self, rows: _Rows) -> Iterator[None]:
        for page in self._query(rows).by_page():
            tags = [(str(row["PartitionKey"]), str(row["RowKey"]), "") for row in page]
            with expecting_an_answer(f"remove rows of {rows.table}"):
                for _, some in groupby(tags, lambda tag: tag[0]):
                    delete_rows(self.table(rows.table), list(some))
            yield

    def _query(self, rows: _Rows) -> Any:
        keys = ["PartitionKey", "RowKey"]
        return self.table(rows.table).query_entities(rows.wanted, parameters=dict(rows.values), select=keys)


def _list(container: Any, prefix: str) -> Iterator[str]:
    with expecting_an_answer(f"list {container.container_name}/{prefix}"), suppress(ResourceNotFoundError):
        yield from container.list_blob_names(name_starts_with=prefix)
