"""The partition `watch` of the table `decisions`: a row for each need, `1|<kind>|<id>`. One request reads all of them.

A row is a hint with a time; the job's own row is the truth. It is written without a condition, by any process, in any
order, after the job's row. So a crash or a slow writer leaves a row that is wrong, until the tick next reads the job.

Keys that begin with `0|` are those of hours, which a later version writes. So no reader begins before `1|`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from azure.data.tables import TableClient, UpdateMode

from shared.azure import expecting_an_answer
from shared.watch.needs import Need, NeedKind, sort_needs

#: Needs of one reading.
MOST_NEEDS: Final = 200
#: Of each kind behind those that filled it.
_MOST_OF_A_KIND: Final = 5
_PARTITION: Final = "watch"
_FIRST, _LAST = "1|", "2|"


@dataclass(frozen=True, slots=True)
class Standing:
    """The needs that stand, the grave ones first."""

    needs: Sequence[Need]
    #: The kinds of which there are more.
    more: Sequence[str] = ()


class WatchTable:
    """The needs in storage."""

    def __init__(self, table: TableClient) -> None:
        """Take the table `decisions`."""
        self._table = table

    def begin(self, need: Need) -> None:
        """Write a need, also over its row of before."""
        row = {
            "PartitionKey": _PARTITION,
            "RowKey": _row_key(need.kind, need.about),
            "found": need.found,
            "grave": need.is_grave,
            "at": need.at.isoformat(),
        }
        if need.since is not None:
            row["since"] = need.since.isoformat()
        with expecting_an_answer(f"note that {need.about!r} needs a person"):
            self._table.upsert_entity(row, mode=UpdateMode.REPLACE)

    def end(self, kind: str, about: str) -> None:
        """Remove a need. One that is gone is no error."""
        with expecting_an_answer(f"note that {about!r} needs no person any more"):
            self._table.delete_entity(_PARTITION, _row_key(kind, about))

    def end_all(self, about: str) -> None:
        """Remove every need about a job that is erased: of each kind, also those of a later version."""
        for kind in self._kinds_about(about):
            self.end(kind, about)

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

    def read(self) -> Standing:
        """Return the needs, by one request mostly.

        Where more than MOST_NEEDS stand, a request more for each kind behind them: many needs of one kind hide no other.
        """
        found, has_more = self._page(_FIRST, MOST_NEEDS)
        more: list[str] = []
        if has_more:
            last = found[-1].kind
            more.append(last)
            for kind in sorted(one for one in NeedKind if one > last):
                others, are_more = self._page(f"1|{kind}|", _MOST_OF_A_KIND, f"1|{kind}~")
                found += others
                more += [kind] if are_more else []
        return Standing(sort_needs(found), more)

    def _page(self, low: str, most: int, high: str = _LAST) -> tuple[list[Need], bool]:
        with expecting_an_answer("read the needs"):
            pages = self._table.query_entities(
                "PartitionKey eq @partition and RowKey ge @low and RowKey lt @high",
                parameters={"partition": _PARTITION, "low": low, "high": high},
                results_per_page=most,
            ).by_page()
            rows = list(next(pages, ()))
        # Of the library's iterator of pages.
        has_more = bool(pages.continuation_token)  # type: ignore[attr-defined]
        return [_need_of(row) for row in rows], has_more


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
    )
