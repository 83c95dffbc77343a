"""The ledger in two tables. A job and its chunk rows share a partition, so that they change together or not at all.

A lost reply leaves open whether a write took effect. The library repeats a PUT and then reports a conflict with
itself. It does not repeat a POST. So every write leaves a nonce, and a write without a clear yes is read back by it.

The stamp of each write of a job: its mark, the states that the job came to, and whether the list of jobs is due.

The list of jobs: a row for each in the partition of its month, the newest first, with the last news of it.

It is a hint with a time; a job's own row is the truth. Its rows are written beside the job's, by any process, in any
order. So the news of an open job and the news of its end have columns of their own, and a write replaces one of the two. A
reader takes those of the later revision, at the same revision the end. A slow "running" never hides an end, although no
write reads first or has a condition.

A job that is under way has its news in a row of the partition `open` instead, so one request finds all such jobs, however
many others are listed. The job's row is marked first, so the process that writes its end knows to remove the row.
A slow process may write it once more after that. Until a tick of the night removes it, the job's own row says the end.

A table lists in key order only, so the keys count down.
"""

import json
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    ResourceExistsError,
    ResourceModifiedError,
    ResourceNotFoundError,
)
from azure.data.tables import EdmType, EntityProperty, TableClient, TableTransactionError, UpdateMode

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
from shared.clock import LOST_RACES, Clock, SystemClock
from shared.errors import ContentionError, ListPlaceError, RowTooLargeError, StorageUnavailableError
from shared.ledger.entities import (
    CHUNK_PREFIX,
    EVENT_PREFIX,
    JOB_KEY,
    STRETCH_PREFIX,
    chunk_key,
    entity_of_waiters,
    job_entity,
    job_of,
    row_entity,
    row_key,
    row_of_entity,
    stretch_of_entity,
    waiters_before,
)
from shared.ledger.job_needs import find_changed, list_marked, mark_needs, needs_of
from shared.ledger.ledger import MOST_ROWS, Listed
from shared.ledger.night_table import NightLine, NightTable
from shared.ledger.precedence import MOST_WAITERS
from shared.ledger.records import CLOSED, TOMBSTONES, BesideRow, ChunkRow, Job, JobState, StretchRow, Told
from shared.outbox import JOB_EVENTS, OutgoingMessage
from shared.telemetry import describe_error, events, tell
from shared.watch import NeedKind, WatchTable

#: Lines of a job's story that are kept: a job that is replayed often goes through its states again and again.
FIRST_TOLD: Final = 10
LAST_TOLD: Final = 50
#: Characters of a line's note: all lines together fit their column.
LONGEST_NOTE: Final = 100
#: States that the list of jobs gets at once. It gets progress this often.
NEWS: Final = CLOSED | {JobState.HELD, JobState.PAUSED}
#: States whose news go to the partition `open`. A small job is accepted with the first one, in its month.
UNDER_WAY: Final = frozenset({JobState.DISPATCHING, JobState.RUNNING, JobState.PAUSED, JobState.FINISHING})
_IN_OPEN_ALONE: Final = UNDER_WAY - {JobState.DISPATCHING}
LISTED_EVERY: Final = timedelta(minutes=1)


def stamp(job: Job, nonce: str, now: datetime) -> Job:
    """Return the job as the write with this nonce stores it. A state or revision that it came to is in its story.

    The story of an earlier version's row is never begun: its past is not known.
    """
    mine = replace(job, nonce=nonce, story=_extend_story(job, now))
    if not is_news(job, mine, now):
        return mine
    return replace(mine, listed_at=now, listed_open=job.listed_open or (bool(job.etag) and job.state in UNDER_WAY))


def is_news(known: Job, mine: Job, now: datetime) -> bool:
    """Check whether the list of jobs gets the write of this job, by the row that was known before."""
    was_paused = bool(known.story) and known.story[-1].state is JobState.PAUSED
    is_new_state = mine.story != known.story and (known.state in NEWS or was_paused or _is_long_finish(known, now))
    return known.listed_at is None or is_new_state or _is_due(known, known.listed_at, now)


def _is_long_finish(job: Job, now: datetime) -> bool:
    """Check whether a job is finishing that ran for a while. A small one makes no request more."""
    return job.state is JobState.FINISHING and job.started_at is not None and now - job.started_at >= LISTED_EVERY


def _is_due(job: Job, listed_at: datetime, now: datetime) -> bool:
    """Check whether a job's progress is news: its begin, and each minute while chunks end. One that is finishing ends at once."""
    if job.state is JobState.FINISHING:
        return False
    is_begun = job.started_at is not None and listed_at < job.started_at
    # The begin of others is the first chunk that ended: small jobs make no request more.
    if is_begun and job.chunks > MOST_ROWS:
        return True
    return job.ended_chunks > 0 and (is_begun or now - listed_at >= LISTED_EVERY)


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
        if job.awaits_others:
            note = f"waits for {', '.join(job.waits)}"
    cut = note if len(note) <= LONGEST_NOTE else f"{note[: LONGEST_NOTE - 1]}…"
    # JSON writes a control character as six.
    return "".join(one if one.isprintable() else " " for one in cut)


#: Characters of a problem; the job's page has all of it.
_LONGEST_PROBLEM: Final = 200
#: Rows and requests of a search by the beginning of an id.
_PAGE_OF_LIST: Final = 1000
#: The partition of the jobs that are under way. It sorts behind all months.
_OPEN: Final = "open"
#: Rows of it without news for so long are compared with their jobs each night.
_SILENT_FOR: Final = timedelta(days=1)
_MOST_PAGES: Final = 5
_LAST_MONTH: Final = 999_999
_LAST_MILLISECOND: Final = 10**15 - 1
#: Of a place in the list: the partition, and the beginning of the row's key.
_PLACE: Final = re.compile(r"[^~]{1,100}~.{1,500}")


#: The state of a newer version is shown as not recorded.
_STATES: Final[Mapping[Any, JobState]] = {state.value: state for state in JobState}


@dataclass(frozen=True, slots=True)
class JobColumn:
    """A column of the list of jobs, as its row is stored, and the command's JSON."""

    #: The field of `Listed`, and the key of JSON.
    name: str
    #: The stored column. `{news}` is `open` or `end`: each is written with the news of that kind alone.
    stored: str
    #: Returns the stored value of a job, and reads it again.
    pack: Callable[[Job], Any]
    unpack: Callable[[Any], Any] = lambda value: value


def _keep(name: str, stored: str = "") -> JobColumn:
    return JobColumn(name, stored or name, attrgetter(name))


def _keep_time(name: str, stored: str = "", source: str = "") -> JobColumn:
    return JobColumn(name, stored or name, lambda job: _iso(getattr(job, source or name)), datetime.fromisoformat)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


#: The columns of tables are `JOBS` of `shared/operating/columns.py`.
JOB_COLUMNS: Final = (
    _keep("job"),
    JobColumn("state", "{news}", lambda job: job.state.value, _STATES.get),
    _keep("workload"),
    _keep("gate"),
    _keep("items"),
    _keep("chunks"),
    _keep_time("accepted_at"),
    _keep_time("deadline"),
    _keep_time("as_of", "{news}_as_of", "listed_at"),
    _keep("revision", "{news}_revision"),
    _keep("done", "{news}_done"),
    _keep("parked_chunks", "{news}_parked"),
    _keep_time("started_at"),
    _keep_time("finished_at"),
    # An empty one is stored too, over the problem of before.
    JobColumn(
        "problem", "{news}_problem", lambda job: (job.problem or "")[:_LONGEST_PROBLEM], lambda text: text or None
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

    def __init__(self, index: TableClient, jobs: TableClient, nights: NightTable | None = None) -> None:
        self._index, self._jobs, self._nights = index, jobs, nights

    def tell(self, job: Job) -> None:
        """Write the news of a job: to `open` while it is under way, else to its month. Safe to repeat."""
        # Of an erased job, the news of before go: a problem may quote a transaction.
        mode = UpdateMode.REPLACE if job.state is JobState.ERASED else UpdateMode.MERGE
        is_open = job.listed_open and job.state in UNDER_WAY
        with expecting_an_answer(f"list job {job.job!r}"):
            line = _entity(job)
            self._index.upsert_entity(line | {"PartitionKey": _OPEN} if is_open else line, mode=mode)
            if job.listed_open and not is_open:
                # Behind the other write: at no time is the job in neither.
                self._index.delete_entity(_OPEN, line["RowKey"])
        if self._nights is not None and job.night is not None:
            self._nights.tell(job, line, mode)

    def has_former_news(self, job: Job) -> bool:
        """Check whether the line of a closed job has news of before its end, which a slow process may write again."""
        line, found = _entity(job), set[str]()
        for partition in (line["PartitionKey"], *([_OPEN] if job.listed_open else [])):
            with expecting_an_answer(f"read the line of job {job.job!r}"), suppress(ResourceNotFoundError):
                found |= set(self._index.get_entity(partition, line["RowKey"]))
        if self._nights is not None and job.night is not None:
            found |= set(self._nights.find(job))
        return any(name.startswith("open") for name in found)

    def begin(self, job: Job) -> None:
        """Write the line of a new job, and list its night if it names one."""
        if self._nights is not None and job.night is not None:
            self._nights.begin(job)
        self.tell(job)

    def forget_night(self, job: Job) -> None:
        """Remove the line of a job in its night, if it names one. Safe to repeat."""
        if self._nights is not None and job.night is not None:
            self._nights.forget(job)

    def list_nights(self, most: int) -> list[str]:
        """Return the names of the latest nights by one request, the newest first."""
        return [] if self._nights is None else self._nights.list_newest(most)

    def read_night(self, night: str) -> list[NightLine]:
        """Return the jobs of a night by one request, those that wait for others last."""
        return [] if self._nights is None else self._nights.read(night, _read_line)

    def newest(self, limit: int) -> list[Listed]:
        """Return the latest jobs, the newest first. `list_open` has later news of those that are under way."""
        words, values = _query(Wanted())
        with expecting_an_answer("list the jobs"):
            page = min(limit, _PAGE_OF_LIST)
            found = self._index.query_entities(words, parameters=values, results_per_page=page)
            return [_read_line(entity) for entity, _ in zip(found, range(limit), strict=False)]

    def page(self, wanted: Wanted, most: int, after: str = "", *, has_news: bool = True) -> JobPage:
        """Return a page of the wanted jobs. It may be short, or empty, and yet not be the last one.

        One request, and one more for the news of those under way, unless the wanted state is one of theirs. `has_news`: False
        leaves these out, where rows of months are enough.
        """
        words, values = _query(wanted)
        with expecting_an_answer("list the jobs"):
            found = self._index.query_entities(words, parameters=values, results_per_page=most)
            pages = found.by_page(_token(after))
            try:
                rows: list[Mapping[str, Any]] = list(next(pages, ()))
            except HttpResponseError as error:
                if error.status_code == _BAD_REQUEST and after:
                    raise _no_place(after) from error
                raise
            if rows and has_news and wanted.state not in _IN_OPEN_ALONE:
                laid = self._lay_news_over(rows)
                is_found_twice = wanted.state is JobState.DISPATCHING
                rows = [one for one, row in zip(laid, rows, strict=True) if one is row or not is_found_twice]
        listed = [_read_line(entity) for entity in rows]
        token: Any = pages.continuation_token  # type: ignore[attr-defined]  # of the library's iterator of pages
        place = f"{token['PartitionKey']}~{token['RowKey']}" if token else None
        return JobPage([one for one in listed if wanted.state in {None, one.state}], place)

    def _lay_news_over(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return these rows, those of months with the news of `open` where these are later. One request."""
        months = [row["RowKey"] for row in rows if row["PartitionKey"] != _OPEN] or [rows[0]["RowKey"]]
        found = self._index.query_entities(
            "PartitionKey eq @open and RowKey ge @first and RowKey le @last",
            # Both partitions have the same keys.
            parameters={"open": _OPEN, "first": months[0], "last": months[-1]},
        )
        news = {row["RowKey"]: row for row in found}
        return [row if row["PartitionKey"] == _OPEN else _take_later(row, news.get(row["RowKey"])) for row in rows]

    def list_open(self, most: int = _PAGE_OF_LIST) -> tuple[list[Listed], bool]:
        """Return the jobs that are under way, the newest first, by one request, and whether these are all."""
        with expecting_an_answer("list the jobs that are under way"):
            pages = self._index.query_entities(
                "PartitionKey eq @open", parameters={"open": _OPEN}, results_per_page=most
            ).by_page()
            listed = [_read_line(entity) for entity in next(pages, ())]
        return listed, not pages.continuation_token  # type: ignore[attr-defined]  # of the library's iterator of pages

    def remove_ended(self, is_under_way: Callable[[str], bool], now: datetime) -> None:
        """Remove the rows of `open` whose jobs are not under way any more, among those without news for a day.

        One request, and one or two for each such row. A row that was written meanwhile stays.
        """
        with expecting_an_answer("look for jobs that are listed as under way, and have ended"):
            rows = self._index.query_entities(
                "PartitionKey eq @open and open_as_of lt @old",
                parameters={"open": _OPEN, "old": (now - _SILENT_FOR).isoformat()},
                select=["PartitionKey", "RowKey", "job"],
            )
            for row in rows:
                if not is_under_way(row["job"]):
                    with suppress(ResourceModifiedError):
                        self._index.delete_entity(
                            row, etag=row.metadata["etag"], match_condition=MatchConditions.IfNotModified
                        )

    def find(self, beginning: str, most: int) -> list[Job]:
        """Return the jobs whose ids begin so, in the order of their ids, up to so many."""
        words = "PartitionKey ge @low and PartitionKey lt @high and RowKey eq @key"
        bounds = {"low": beginning, "high": f"{beginning}~", "key": JOB_KEY}
        found: list[Job] = []
        with expecting_an_answer(f"look for jobs whose ids begin with {beginning!r}"):
            pages = self._jobs.query_entities(words, parameters=bounds, results_per_page=most).by_page()
            for page, _ in zip(pages, range(_MOST_PAGES), strict=False):
                jobs = (entity for entity in page if waiters_before(entity) is None)
                found += [job_of(entity, str(entity.metadata["etag"])) for entity in jobs]
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
        words, values = _query(Wanted())
        with expecting_an_answer("list the jobs"):
            for entity in self._index.query_entities(words, parameters=values, results_per_page=_PAGE_OF_LIST):
                line = _read_line(entity)
                if line.state is None or (line.first_id is None and line.state not in TOMBSTONES):
                    yield line


_BAD_REQUEST: Final = 400
#: Stands for the numbers of a job in stretches: no number is as small.
_APART: Final = -1


def _entity(job: Job) -> Entity:
    news = "end" if job.state in CLOSED else "open"
    row: Entity = {"PartitionKey": _month(job.accepted_at), "RowKey": f"{_moment(job.accepted_at)}|{job.job}"}
    row |= {column.stored.format(news=news): column.pack(job) for column in JOB_COLUMNS}
    if job.id_base is not None:
        # Those of stretches do not adjoin, and numbers of other jobs are between them: what the line said of the first one goes.
        adjoin = job.stretches < 2
        numbers = {
            "first_id": job.id_base if adjoin else _APART,
            "last_id": job.id_base + job.items - 1 if adjoin else _APART,
        }
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
    first_id = None if first_id == _APART else first_id
    return Listed(**values, first_id=first_id)


def _take_later(row: Mapping[str, Any], news: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the row of a month with the news of `open`, unless an instance of before wrote later ones into the row itself."""
    if news is None or ("open_as_of" in row and _order_news(row) > _order_news(news)):
        return row
    return {**row, **news}


def _order_news(row: Mapping[str, Any]) -> tuple[int, datetime]:
    return row["open_revision"], datetime.fromisoformat(row["open_as_of"])


def _query(wanted: Wanted) -> tuple[str, dict[str, str]]:
    """Return the filter. Bounds of time are bounds of keys, so the table need not look beyond them."""
    is_in_months = wanted.state not in UNDER_WAY
    words = ["PartitionKey lt @open"] if is_in_months else []
    words += ["PartitionKey eq @open"] if wanted.state in _IN_OPEN_ALONE else []
    values: dict[str, str] = {"open": _OPEN}
    given = {"state": wanted.state and wanted.state.value, "workload": wanted.workload, "gate": wanted.gate}
    for name, value in given.items():
        if value is not None:
            words, values = [*words, f"{name} eq @{name}"], values | {name: value}
    if wanted.since is not None:
        words += ["RowKey lt @oldest", *(["PartitionKey le @oldest_month"] if is_in_months else [])]
        values |= {"oldest_month": _month(wanted.since), "oldest": f"{_moment(wanted.since)}~"}
    if wanted.before is not None:
        words += ["RowKey gt @newest", *(["PartitionKey ge @newest_month"] if is_in_months else [])]
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


#: Rows of a page. A gap between two chunks that exceeds it starts another query.
_PAGE: Final = 1000


class TableLedger:
    """A Ledger in the tables `jobs` and `jobindex`."""

    def __init__(  # noqa: PLR0913 - its tables, and what each write gets
        self,
        jobs: TableClient,
        index: TableClient,
        new_nonce: Callable[[], str] = lambda: uuid.uuid4().hex,
        clock: Clock | None = None,
        watch: WatchTable | None = None,
        *,
        nights: NightTable | None = None,
    ) -> None:
        """`watch`: has the needs of jobs. None: they are kept in their rows alone. `nights`: has the jobs that name one."""
        self._watch = watch
        self._jobs, self._new_nonce, self._clock = jobs, new_nonce, clock or SystemClock()
        self.list = JobList(index, jobs, nights)

    def insert(self, job: Job) -> tuple[Job, bool]:
        """Insert a job, or return the job that already has this id. Either is in the list of jobs afterwards."""
        mine = stamp(job, self._new_nonce(), self._clock.now())
        with expecting_an_answer(f"insert job {job.job!r}"):
            try:
                metadata = self._jobs.create_entity(job_entity(mine))
                stored = replace(mine, etag=metadata["etag"])
            except AzureError:
                found = self._find_inserted(mine)
                if found is None:
                    raise
                stored = found
            # By the stored row: the next delivery after a crash writes the same.
            self.list.begin(stored)
        return stored, stored.nonce == mine.nonce

    def _find_inserted(self, mine: Job) -> Job | None:
        """Return the job whose row is there. A row of names alone becomes that of this job, with these names."""
        for _ in LOST_RACES.tries():
            entity = self._find_row(mine.job)
            names = waiters_before(entity) if entity else None
            if entity is None or names is None:
                return job_of(entity, str(entity.metadata["etag"])) if entity else None
            # Refused, or its reply is lost: the next reading tells.
            with suppress(AzureError):
                awaited = replace(mine, waiters=names)
                metadata = self._jobs.update_entity(job_entity(awaited), **_is_unchanged(entity.metadata["etag"]))
                return replace(awaited, etag=metadata["etag"])
        raise ContentionError(f"could not insert job {mine.job!r}: others wrote that they wait for it; try again")

    def name_waiter(self, job: str, waiter: str) -> bool:
        """Leave the name of a job that waits for one that has no row. False: that has one, or no room for the name."""
        with expecting_an_answer(f"note that job {waiter!r} waits for job {job!r}"):
            with suppress(ResourceExistsError):
                self._jobs.create_entity(entity_of_waiters(job, [waiter], self._clock.now()))
                return True
            for _ in LOST_RACES.tries():
                entity = self._find_row(job)
                names = waiters_before(entity) if entity else None
                if entity is None or names is None or waiter in names or len(names) >= MOST_WAITERS:
                    return names is not None and waiter in names
                with suppress(AzureError):
                    named = entity_of_waiters(job, [*names, waiter], self._clock.now())
                    self._jobs.update_entity(named, **_is_unchanged(entity.metadata["etag"]))
                    return True
        # Its pointer leads to it each minute.
        return False

    def read(self, job: str) -> Job | None:
        """Return the job, or None."""
        with expecting_an_answer(f"read job {job!r}"):
            entity = self._find_row(job)
        return None if entity is None or waiters_before(entity) is not None else job_of(entity, entity.metadata["etag"])

    def _find_row(self, job: str) -> Any:
        try:
            return self._jobs.get_entity(job, JOB_KEY)
        except ResourceNotFoundError:
            return None

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

    def stretches_of(self, job: str) -> list[StretchRow]:
        """Return the rows of the job's stretches behind the first one, in their order."""
        with expecting_an_answer(f"read the stretches of job {job!r}"):
            found = self._list_between(job, STRETCH_PREFIX, STRETCH_PREFIX + "~")
            return [stretch_of_entity(entity, str(entity.metadata["etag"])) for entity in found]

    def commit(self, job: Job, rows: Sequence[BesideRow] = (), messages: Sequence[OutgoingMessage] = ()) -> Job | None:
        """Write the job, rows and messages in one entity-group transaction: all or nothing."""
        now = self._clock.now()
        mine = stamp(job, self._new_nonce(), now)
        if mine.may_need_a_person:
            mine = replace(mine, needs=mark_needs(mine))
        written = self._write(mine, rows, messages)
        if written is not None and is_news(job, mine, now):
            self._tell_news(written)
        if written is not None and mine.needs != job.needs:
            self._watch_needs(written, find_changed(job.needs, mine.needs))
        return written

    def _write(self, mine: Job, rows: Sequence[BesideRow], messages: Sequence[OutgoingMessage]) -> Job | None:
        stamped: list[BesideRow] = [replace(row, nonce=mine.nonce) for row in rows]
        operations = _operations(mine, stamped, messages)
        with expecting_an_answer(f"write job {mine.job!r} with {len(rows)} rows"):
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
        return self._remove(job, CHUNK_PREFIX)

    def remove_stretches(self, job: str) -> Iterator[None]:
        """Remove the rows of its stretches, and yield after each transaction."""
        return self._remove(job, STRETCH_PREFIX)

    def _remove(self, job: str, prefix: str) -> Iterator[None]:
        with expecting_an_answer(f"remove the rows {prefix} of job {job!r}"):
            while keys := self._first_keys(job, prefix):
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

    def tidy_list(self) -> None:
        """Take jobs that have ended from those that are listed as under way, where a slow process left them there."""
        self.list.remove_ended(self._is_under_way, self._clock.now())

    def _is_under_way(self, job: str) -> bool:
        found = self.read(job)
        return found is not None and found.state in UNDER_WAY

    def tell_needs(self, job: Job, *, is_in_time: bool = False) -> bool:
        """Write again which needs a job has, and end those that it had. No request for a job that never had one."""
        if not job.may_need_a_person:
            return True
        # A row that an earlier version wrote has no marks.
        return self._watch_needs(job, list_marked(mark_needs(job)), is_in_time=is_in_time)

    def newest(self, limit: int) -> list[Listed]:
        """Return the latest jobs, the newest first."""
        return self.list.newest(limit)

    def _watch_needs(self, job: Job, kinds: Sequence[str], *, is_in_time: bool = False) -> bool:
        """Begin or end these needs, by one request each. A failure is no failure of the job."""
        if self._watch is None:
            return True
        needs = dict(needs_of(job, self._clock.now()))
        if is_in_time:
            needs.pop(NeedKind.LATE, None)
        try:
            for kind in kinds:
                if kind in needs:
                    self._watch.begin(needs[kind])
                else:
                    self._watch.end(kind, job.job, self._clock.now())
        except StorageUnavailableError as error:
            # The tick's look at the job does it again.
            tell(events.JOB_UNWATCHED, job=job.job, state=job.state.value, error=describe_error(error))
            return False
        return True

    def _tell_news(self, job: Job) -> None:
        try:
            self.list.tell(job)
        except StorageUnavailableError as error:
            # The job is written. The list is a hint: the next news, or the tick, tells it.
            tell(events.JOB_UNLISTED, job=job.job, state=job.state.value, error=describe_error(error))

    def _first_keys(self, job: str, prefix: str) -> list[str]:
        found = self._list_between(job, prefix, prefix + "~", page=MOST_ROWS, select=["RowKey"])
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

    def _prove_write(self, mine: Job, rows: Sequence[BesideRow], error: AzureError) -> Job | None:
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

    def _is_mine(self, mine: Job, row: BesideRow) -> bool:
        found = next(iter(self._list_between(mine.job, row_key(row), row_key(row))), None)
        return found is not None and found["nonce"] == mine.nonce


def _operations(job: Job, rows: Sequence[BesideRow], messages: Sequence[OutgoingMessage]) -> list[GroupOperation]:
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
