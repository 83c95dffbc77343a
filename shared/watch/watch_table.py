"""The partition `watch` of the table `decisions`: a row for each need, `1|<kind>|<id>`, and one for each hour, `0|<hour>`.

One range query reads the last hours and the needs behind them, so a first page costs one request.

The row of a need is a hint with a time; the job's own row is the truth. It is written without a condition, by any process,
in any order, after the job's row. So a crash or a slow writer leaves a row that is wrong, until the tick next reads the job.

A need and its mark in the hour are written together or not at all. All other columns of an hour are merged, each by its
own writer, and none is read before it is written. So a write that is done twice changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableClient, TableTransactionError, UpdateMode

from shared.azure import MOST_GROUP_ROWS, GroupOperation, date_of, error_code, expecting_an_answer, write_group
from shared.watch.needs import Need, sort_needs
from shared.watch.past import AROUND, PastMoment, find_moment
from shared.watch.points import (
    HOUR,
    Act,
    Change,
    Hour,
    Point,
    SpentUntil,
    hour_key,
    pack_act,
    pack_change,
    pack_open,
    pack_point,
    pack_spent,
    read_hour,
)

#: Rows of hours are kept so long.
KEPT: Final = timedelta(days=35)

#: Needs of one reading.
MOST_NEEDS: Final = 200
#: Of each kind behind those that filled it.
_MOST_OF_A_KIND: Final = 5
_PARTITION: Final = "watch"
_FIRST, _LAST = "1|", "2|"
#: Hours that a first page reads: a day, and the one that has begun.
_MOST_HOURS: Final = 25
_REPLACE: Final = {"mode": UpdateMode.REPLACE}


@dataclass(frozen=True, slots=True)
class Standing:
    """The needs that stand, the grave ones first."""

    needs: Sequence[Need]
    #: The kinds of which there are more.
    more: Sequence[str] = ()
    #: The hours that were read with them, in the order of time.
    hours: Sequence[Hour] = ()
    #: When they were read, by the clock of storage. None: it named no time.
    named: datetime | None = None


class WatchTable:
    """The needs in storage."""

    def __init__(self, table: TableClient) -> None:
        """Take the table `decisions`."""
        self._table = table

    def begin(self, need: Need) -> None:
        """Write a need, also over its row of before, and its mark in the hour."""
        row = {
            "PartitionKey": _PARTITION,
            "RowKey": _row_key(need.kind, need.about),
            "found": need.found,
            "grave": need.is_grave,
            "at": need.at.isoformat(),
        }
        if need.since is not None:
            row["since"] = need.since.isoformat()
        if need.until is not None:
            row["until"] = need.until.isoformat()
        change = Change(need.at, need.kind, need.about, need.is_grave, begins=True)
        with expecting_an_answer(f"note that {need.about!r} needs a person"):
            write_group(self._table, [("upsert", row, _REPLACE), _merge(need.at, pack_change(change))])

    def end(self, kind: str, about: str, at: datetime) -> None:
        """Remove a need, and mark its end in the hour. For one that is gone nothing is marked."""
        change = Change(at, kind, about, is_grave=False, begins=False)
        gone = {"PartitionKey": _PARTITION, "RowKey": _row_key(kind, about)}
        with expecting_an_answer(f"note that {about!r} needs no person any more"):
            try:
                write_group(self._table, [("delete", gone), _merge(at, pack_change(change))])
            except TableTransactionError as refusal:
                if error_code(refusal) != "ResourceNotFound":
                    raise

    def end_all(self, about: str, at: datetime) -> None:
        """Remove every need about a job that is erased: of each kind, also those of a later version."""
        for kind in self._kinds_about(about):
            self.end(kind, about, at)

    def count_about(self, about: str) -> int:
        """Return how many needs there are about a job. One request a thousand needs of all jobs."""
        return len(self._kinds_about(about))

    def _kinds_about(self, about: str) -> list[str]:
        with expecting_an_answer(f"read the needs about {about!r}"):
            rows = self._table.query_entities(
                "PartitionKey eq @partition and RowKey ge @low and RowKey lt @high",
                parameters={"partition": _PARTITION, "low": _FIRST, "high": _LAST},
                select=["RowKey"],
            )
            keys = [row["RowKey"].split("|", 2) for row in rows]
        return [kind for _, kind, name in keys if name == about]

    def find(self, kind: str, about: str) -> Need | None:
        """Return a need, or None: it stands no more. One request."""
        with expecting_an_answer(f"read what {about!r} needs"):
            try:
                return _need_of(self._table.get_entity(_PARTITION, _row_key(kind, about)))
            except ResourceNotFoundError:
                return None

    def record(
        self, at: datetime, point: Point, opened: Sequence[Need] | None = None, spent: SpentUntil | None = None
    ) -> None:
        """Write what a tick saw, and the needs at the beginning of its hour and the cost of the day if it read them."""
        columns = pack_point(at, point) | ({} if opened is None else pack_open(opened))
        columns |= {} if spent is None else pack_spent(spent)
        self._note(at, columns, "record what this tick saw")

    def note_act(self, act: Act) -> None:
        """Mark an act in its hour."""
        self._note(act.at, pack_act(act), f"mark {act.what} {act.target!r}")

    def _note(self, at: datetime, columns: Mapping[str, str], words: str) -> None:
        with expecting_an_answer(words):
            self._table.upsert_entity(_hour_row(at, columns), mode=UpdateMode.MERGE)

    def read(self, since: datetime | None = None) -> Standing:
        """Return the needs, and the hours since a moment, by one request mostly.

        Where more than MOST_NEEDS stand, a request more for each kind behind them: many needs of one kind hide no other.
        """
        low, hours = (_FIRST, 0) if since is None else (hour_key(since), _MOST_HOURS)
        replies: list[Any] = []
        rows, has_more = self._page(low, MOST_NEEDS + hours, reply=replies.append)
        needs = [_need_of(row) for row in rows if row["RowKey"] >= _FIRST]
        found, more = needs[:MOST_NEEDS], list[str]()
        if has_more or len(needs) > MOST_NEEDS:
            more.append(found[-1].kind)
            # Behind the kind that filled it, from kind to kind, also those of capabilities and of later versions.
            while behind := self._page(f"1|{found[-1].kind}~", _MOST_OF_A_KIND + 1)[0]:
                first = [need for need in map(_need_of, behind) if need.kind == behind[0]["RowKey"].split("|", 2)[1]]
                found += first[:_MOST_OF_A_KIND]
                more += [first[0].kind] if len(first) > _MOST_OF_A_KIND else []
        named = date_of(replies[-1]) if replies else None
        return Standing(sort_needs(found), more, [read_hour(row) for row in rows if row["RowKey"] < _FIRST], named)

    def read_hours(self, since: datetime, until: datetime) -> list[Hour]:
        """Return the hours of a time in their order, both ends included. One request for a thousand."""
        with expecting_an_answer(f"read what was recorded since {since:%Y-%m-%d %H} h"):
            rows = self._table.query_entities(
                "PartitionKey eq @partition and RowKey ge @low and RowKey le @high",
                parameters={"partition": _PARTITION, "low": hour_key(since), "high": hour_key(until)},
            )
            return [read_hour(row) for row in rows]

    def read_moment(self, at: datetime) -> PastMoment:
        """Return a moment of the past. One request."""
        return find_moment(self.read_hours(at - HOUR, at + AROUND), at)

    def remove_old(self, now: datetime) -> None:
        """Remove the hours that are kept no longer: one request, and one more where there are some."""
        with expecting_an_answer("remove what was recorded long ago"):
            pages = self._table.query_entities(
                "PartitionKey eq @partition and RowKey lt @old",
                parameters={"partition": _PARTITION, "old": hour_key(now - KEPT)},
                select=["PartitionKey", "RowKey"],
                results_per_page=MOST_GROUP_ROWS,
            ).by_page()
            write_group(self._table, [("delete", dict(row)) for row in next(pages, ())])

    def _page(
        self, low: str, most: int, high: str = _LAST, reply: Callable[[Any], object] = lambda _reply: None
    ) -> tuple[list[Mapping[str, Any]], bool]:
        with expecting_an_answer("read the needs"):
            pages = self._table.query_entities(
                "PartitionKey eq @partition and RowKey ge @low and RowKey lt @high",
                parameters={"partition": _PARTITION, "low": low, "high": high},
                results_per_page=most,
                raw_response_hook=reply,
            ).by_page()
            rows: list[Mapping[str, Any]] = list(next(pages, ()))
        # Of the library's iterator of pages.
        return rows, bool(pages.continuation_token)  # type: ignore[attr-defined]


def _hour_row(at: datetime, columns: Mapping[str, str]) -> dict[str, str]:
    return {"PartitionKey": _PARTITION, "RowKey": hour_key(at), **columns}


def _merge(at: datetime, columns: Mapping[str, str]) -> GroupOperation:
    return "upsert", _hour_row(at, columns), {"mode": UpdateMode.MERGE}


def _row_key(kind: str, about: str) -> str:
    return f"1|{kind}|{about}"


def _need_of(row: Mapping[str, Any]) -> Need:
    _, kind, about = row["RowKey"].split("|", 2)
    return Need(
        kind=kind,
        about=about,
        found=row.get("found", ""),
        at=datetime.fromisoformat(row["at"]),
        since=datetime.fromisoformat(row["since"]) if "since" in row else None,
        is_grave=row.get("grave", True),
        until=datetime.fromisoformat(row["until"]) if "until" in row else None,
    )
