"""The list of jobs: a row for each, the newest first, with the last news of it. A page of it is one request.

It is a hint with a time; a job's own row is the truth. Its rows are written beside the job's, by any process, in any
order. So the news of an open job and the news of its end have columns of their own, and a write replaces one of the two. A
reader takes those of the later revision, at the same revision the end. A slow "running" never hides an end, although no
write reads first or has a condition.

A table lists in key order only, so the keys count down.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

from azure.core.exceptions import HttpResponseError
from azure.data.tables import EdmType, EntityProperty, TableClient, UpdateMode

from shared.azure import Entity, expecting_an_answer
from shared.errors import ListPlaceError
from shared.ledger.entities import JOB_KEY, job_of
from shared.ledger.ledger import Listed
from shared.ledger.records import CLOSED, Job, JobState

#: Characters of a problem; the job's page has all of it.
_LONGEST_PROBLEM: Final = 200
#: Rows and requests of a search by the beginning of an id.
_PAGE: Final = 1000
_MOST_PAGES: Final = 5
_LAST_MONTH: Final = 999_999
_LAST_MILLISECOND: Final = 10**15 - 1
#: Of a place in the list: the partition, and the beginning of the row's key.
_PLACE: Final = re.compile(r"[^~]{1,100}~.{1,500}")


#: The state of a newer version is shown as not recorded.
_STATES: Final[Mapping[Any, JobState]] = {state.value: state for state in JobState}


@dataclass(frozen=True, slots=True)
class JobColumn:
    """A column of the list of jobs. The stored row, the command's table and JSON, and the console's table have these."""

    #: The field of `Listed`, and the key of JSON.
    name: str
    #: At the top of tables. Empty: they do not have it.
    head: str
    #: The stored column. `{news}` is `open` or `end`: each is written with the news of that kind alone.
    stored: str
    #: Returns the stored value of a job, and reads it again.
    pack: Callable[[Job], Any]
    unpack: Callable[[Any], Any] = lambda value: value

    @property
    def is_time(self) -> bool:
        """Return whether its values are moments."""
        return self.unpack == datetime.fromisoformat


def _plain(name: str, head: str = "", stored: str = "") -> JobColumn:
    return JobColumn(name, head, stored or name, attrgetter(name))


def _time(name: str, head: str = "", stored: str = "", source: str = "") -> JobColumn:
    return JobColumn(name, head, stored or name, lambda job: _iso(getattr(job, source or name)), datetime.fromisoformat)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


#: In the order of tables.
JOB_COLUMNS: Final = (
    _plain("job", "job"),
    JobColumn("state", "state", "{news}", lambda job: job.state.value, _STATES.get),
    _plain("workload", "workload"),
    _plain("gate", "gate"),
    _plain("items", "transactions"),
    _plain("chunks", "chunks"),
    _time("accepted_at", "accepted at"),
    _time("deadline", "deadline"),
    _time("as_of", "as of", "{news}_as_of", "listed_at"),
    _plain("revision", stored="{news}_revision"),
    _plain("done", stored="{news}_done"),
    _plain("parked_chunks", stored="{news}_parked"),
    _time("started_at"),
    _time("finished_at"),
    # Stored where there is none, too: the problem of before is over.
    JobColumn(
        "problem", "", "{news}_problem", lambda job: (job.problem or "")[:_LONGEST_PROBLEM], lambda text: text or None
    ),
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs a person wants to see. None: all of them."""

    state: JobState | None = None
    workload: str | None = None
    gate: str | None = None
    #: Accepted since and before these moments.
    since: datetime | None = None
    before: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of the list."""

    jobs: Sequence[Listed]
    #: The place at which the next page begins. None: this was the last one.
    after: str | None


class JobList:
    """The list of jobs in the table `jobindex`."""

    def __init__(self, index: TableClient, jobs: TableClient) -> None:
        self._index, self._jobs = index, jobs

    def tell(self, job: Job) -> None:
        """Write the news of a job. Safe to repeat."""
        with expecting_an_answer(f"list job {job.job!r}"):
            self._index.upsert_entity(_entity(job), mode=UpdateMode.MERGE)

    def newest(self, limit: int) -> list[Listed]:
        """Return the latest jobs, the newest first."""
        with expecting_an_answer("list the jobs"):
            found = self._index.list_entities(results_per_page=min(limit, _PAGE))
            return [_read_line(entity) for entity, _ in zip(found, range(limit), strict=False)]

    def page(self, wanted: Wanted, most: int, after: str = "") -> JobPage:
        """Return a page of the wanted jobs by one request. It may be short, or empty, and yet not be the last one."""
        words, values = _query(wanted)
        with expecting_an_answer("list the jobs"):
            found = (
                self._index.query_entities(words, parameters=values, results_per_page=most)
                if words
                else self._index.list_entities(results_per_page=most)
            )
            pages = found.by_page(_token(after))
            try:
                rows = list(next(pages, ()))
            except HttpResponseError as error:
                if error.status_code == _BAD_REQUEST and after:
                    raise _no_place(after) from error
                raise
        listed = [_read_line(entity) for entity in rows]
        token: Any = pages.continuation_token  # type: ignore[attr-defined]  # of the library's iterator of pages
        place = f"{token['PartitionKey']}~{token['RowKey']}" if token else None
        return JobPage([one for one in listed if wanted.state in {None, one.state}], place)

    def find_open(self) -> list[Listed]:
        """Return the latest jobs that have not ended, by one request: those that storage finds in it."""
        words = " and ".join(f"state ne '{state.value}'" for state in sorted(CLOSED))
        with expecting_an_answer("list the open jobs"):
            page = next(self._index.query_entities(words, results_per_page=_PAGE).by_page(), ())
            listed = [_read_line(entity) for entity in page]
        return [one for one in listed if one.state is not None and one.state not in CLOSED]

    def find(self, beginning: str, most: int) -> list[Job]:
        """Return the jobs whose ids begin so, in the order of their ids, up to so many."""
        words = "PartitionKey ge @low and PartitionKey lt @high and RowKey eq @key"
        bounds = {"low": beginning, "high": f"{beginning}~", "key": JOB_KEY}
        found: list[Job] = []
        with expecting_an_answer(f"look for jobs whose ids begin with {beginning!r}"):
            pages = self._jobs.query_entities(words, parameters=bounds, results_per_page=most).by_page()
            for page, _ in zip(pages, range(_MOST_PAGES), strict=False):
                found += [job_of(entity, str(entity.metadata["etag"])) for entity in page]
                if len(found) >= most:
                    break
        return found[:most]

    def find_numbered(self, number: int, since: datetime, before: datetime) -> str | None:
        """Return the job that was accepted in this time and has the transaction with this number, by one request mostly.

        None also where it is not in the part that storage looked through.
        """
        words, values = _query(Wanted(since=since, before=before))
        # Not as parameters: the library writes 0 and 1 as truth values.
        words = f"{words} and first_id le {number}L and last_id ge {number}L"
        with expecting_an_answer(f"look for the job of number {number}"):
            pages = self._index.query_entities(words, parameters=values).by_page()
            found = (str(row["job"]) for page, _ in zip(pages, range(_MOST_PAGES), strict=False) for row in page)
            return next(found, None)

    def untold(self) -> Iterator[Listed]:
        """Yield the jobs that an earlier version listed: without their states, or the numbers of their transactions."""
        with expecting_an_answer("list the jobs"):
            for entity in self._index.list_entities(results_per_page=_PAGE):
                line = _read_line(entity)
                if line.state is None or (line.first_id is None and line.state is not JobState.BURIED):
                    yield line


_BAD_REQUEST: Final = 400


def _entity(job: Job) -> Entity:
    news = "end" if job.state in CLOSED else "open"
    row: Entity = {"PartitionKey": _month(job.accepted_at), "RowKey": f"{_moment(job.accepted_at)}|{job.job}"}
    row |= {column.stored.format(news=news): column.pack(job) for column in JOB_COLUMNS}
    if job.id_base is not None:
        numbers = {"first_id": job.id_base, "last_id": job.id_base + job.items - 1}
        row |= {name: EntityProperty(number, EdmType.INT64) for name, number in numbers.items()}
    # What filters go by. After a slow writer it is behind until the next news, and a page leaves such a job out.
    row["state"] = job.state.value
    return {name: value for name, value in row.items() if value is not None}


def _read_line(entity: Mapping[str, Any]) -> Listed:
    is_over = "end" in entity and entity["end_revision"] >= entity.get("open_revision", 0)
    news = "end" if is_over else "open"
    values: dict[str, Any] = {"gate": None}
    for column in JOB_COLUMNS:
        if (stored := entity.get(column.stored.format(news=news))) is not None:
            values[column.name] = column.unpack(stored)
    if not is_over:
        # Of a revision before this one.
        values.pop("finished_at", None)
    first_id = entity["first_id"].value if "first_id" in entity else None
    return Listed(**values, first_id=first_id)


def _query(wanted: Wanted) -> tuple[str, dict[str, str]]:
    """Return the filter. Bounds of time are bounds of keys, so the table need not look beyond them."""
    words: list[str] = []
    values: dict[str, str] = {}
    given = {"state": wanted.state and wanted.state.value, "workload": wanted.workload, "gate": wanted.gate}
    for name, value in given.items():
        if value is not None:
            words, values = [*words, f"{name} eq @{name}"], values | {name: value}
    if wanted.since is not None:
        words += ["PartitionKey le @oldest_month", "RowKey lt @oldest"]
        values |= {"oldest_month": _month(wanted.since), "oldest": f"{_moment(wanted.since)}~"}
    if wanted.before is not None:
        words += ["PartitionKey ge @newest_month", "RowKey gt @newest"]
        values |= {"newest_month": _month(wanted.before), "newest": f"{_moment(wanted.before)}~"}
    return " and ".join(words), values


def _month(moment: datetime) -> str:
    return f"{_LAST_MONTH - (moment.year * 100 + moment.month):06}"


def _moment(moment: datetime) -> str:
    return f"{_LAST_MILLISECOND - int(moment.timestamp() * 1000):015}"


def _token(after: str) -> Any:
    if not after:
        return None
    if not _PLACE.fullmatch(after):
        raise _no_place(after)
    partition, _, row = after.partition("~")
    return {"PartitionKey": partition, "RowKey": row}


def _no_place(after: str) -> ListPlaceError:
    return ListPlaceError(
        f"could not go on in the list of jobs after {after[:40]!r}: no page of the list ended there; begin at the top"
    )
