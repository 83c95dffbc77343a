"""Tries at the properties of tables."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import date_of
from tools.conformance.scene import DONE, CheckEntry, Scene, outcome

_UNCHANGED: Final = MatchConditions.IfNotModified
_MOST_PAGES: Final = 20
_ORDER: Final = (4, 9, 1, 7, 0, 3, 8, 5, 2, 6)
#: Clocks of machines differ; more than this is no difference of clocks.
_MOST_APART: Final = timedelta(minutes=15)
_MOST_OF_A_BATCH: Final = 100


class _Rows:
    """Rows of one partition of this run."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.table, prefix = scene.site.table()
        self.partition = f"{prefix}{name}"

    def row(self, key: str, **fields: Any) -> dict[str, Any]:
        """Return a row."""
        return {"PartitionKey": self.partition, "RowKey": key, **fields}

    def read(self, key: str) -> dict[str, Any]:
        """Return the fields of a row, without its keys."""
        found = self.table.get_entity(self.partition, key)
        return {name: value for name, value in found.items() if name not in {"PartitionKey", "RowKey"}}

    def fill(self) -> None:
        """Write ten rows, in another order than that of their keys."""
        self.table.submit_transaction([("create", self.row(f"{number:02}", a=number, b=number)) for number in _ORDER])

    def keys(self, condition: str = "", **options: Any) -> list[str]:
        """Return the keys that a query returns, in its order."""
        wanted = f"PartitionKey eq '{self.partition}'{condition}"
        found: list[str] = []
        for number, page in enumerate(self.table.query_entities(wanted, **options).by_page()):
            found += [str(row["RowKey"]) for row in page]
            if number == _MOST_PAGES:
                break
        return found


def check_insert(scene: Scene) -> None:
    """Insert a row twice."""
    rows = _Rows(scene, "insert")
    rows.table.create_entity(rows.row("1", a=1))
    again = outcome(lambda: rows.table.create_entity(rows.row("1", a=2)))
    scene.notes.note("table.insert", "insert a row that is there", "refused with 409", again)
    scene.notes.note("table.insert", "read it afterwards", {"a": 1}, rows.read("1"))


def check_condition(scene: Scene) -> None:
    """Write and delete with an ETag of before."""
    rows, note, key = _Rows(scene, "condition"), scene.notes.note, "table.condition"
    tags = [str(rows.table.create_entity(rows.row("1", a=1))["etag"])]
    tags += [_replace(rows.table, rows.row("1", a=number)) for number in (2, 2)]
    note("table.etag", "write a row three times, twice the same fields", "3 ETags", f"{len(set(tags))} ETags")
    before: dict[str, Any] = {"etag": tags[0], "match_condition": _UNCHANGED}
    refused = "refused with 412"
    for mode in (UpdateMode.REPLACE, UpdateMode.MERGE):
        late = outcome(lambda mode=mode: rows.table.update_entity(rows.row("1", a=9), mode=mode, **before))  # type: ignore[misc]
        note(key, f"{mode.value} with If-Match and an ETag of before", refused, late)
    gone = outcome(lambda: rows.table.delete_entity(rows.row("1"), **before))
    note(key, "delete with that ETag", refused, gone)
    note(key, "read afterwards", {"a": 2}, rows.read("1") if gone != DONE else {})
    late = outcome(
        lambda: rows.table.submit_transaction([("update", rows.row("1", a=9), {"mode": UpdateMode.REPLACE, **before})])
    )
    note(key, "replace in a batch with that ETag", refused, late)


def _replace(table: TableClient, row: dict[str, Any]) -> str:
    return str(table.update_entity(row, mode=UpdateMode.REPLACE)["etag"])


def check_atomic(scene: Scene) -> None:
    """Send a batch whose second row is refused."""
    rows = _Rows(scene, "atomic")
    rows.table.create_entity(rows.row("2", a=1))
    batch = [("create", rows.row(key, a=2)) for key in ("1", "2", "3")]
    sent = outcome(lambda: rows.table.submit_transaction(batch))
    scene.notes.note("table.atomic", "insert three rows in a batch, one of which is there", "refused with 409", sent)
    scene.notes.note("table.atomic", "read all rows afterwards", ["2"], rows.keys())


def check_limit(scene: Scene) -> None:
    """Send a batch that is too large, and one that has a row twice."""
    rows, note = _Rows(scene, "limit"), scene.notes.note
    many = [("create", rows.row(f"{number:03}")) for number in range(_MOST_OF_A_BATCH + 1)]
    # The answer has no form that all services share: what counts is that no row is there.
    with suppress(HttpResponseError, HTTPException):
        rows.table.submit_transaction(many)
    note("table.limit", "insert 101 rows in a batch, and count them", "0 rows", f"{len(rows.keys())} rows")
    twice = [("upsert", rows.row("1", a=number), {"mode": UpdateMode.REPLACE}) for number in range(2)]
    sent = outcome(lambda: rows.table.submit_transaction(twice))
    note("table.limit", "write a row twice in a batch", "refused with 400", sent)


def check_merge(scene: Scene) -> None:
    """Merge into a row, and replace it."""
    rows, note = _Rows(scene, "merge"), scene.notes.note
    rows.table.create_entity(rows.row("1", a=1, b=1))
    rows.table.upsert_entity(rows.row("1", b=2), mode=UpdateMode.MERGE)
    note("table.merge", "upsert one of two fields as a merge, and read", {"a": 1, "b": 2}, _sorted(rows.read("1")))
    rows.table.update_entity(rows.row("1", c=3), mode=UpdateMode.MERGE)
    note("table.merge", "update a third field as a merge", {"a": 1, "b": 2, "c": 3}, _sorted(rows.read("1")))
    rows.table.upsert_entity(rows.row("1", b=4), mode=UpdateMode.REPLACE)
    note("table.replace", "upsert one of three fields as a replacement, and read", {"b": 4}, rows.read("1"))
    rows.table.update_entity(rows.row("1", a=5), mode=UpdateMode.REPLACE)
    note("table.replace", "update another field as a replacement", {"a": 5}, rows.read("1"))


def _sorted(fields: dict[str, Any]) -> dict[str, Any]:
    return dict(sorted(fields.items()))


def check_queries(scene: Scene) -> None:
    """Query rows: all, a range, in pages, some fields."""
    rows, note = _Rows(scene, "queries"), scene.notes.note
    rows.fill()
    every = [f"{number:02}" for number in range(len(_ORDER))]
    note("table.order", "query ten rows that were written in another order", every, rows.keys())
    some = rows.keys(" and RowKey ge '03' and RowKey lt '07'")
    note("table.range", "query the keys from 03 to before 07", every[3:7], sorted(some))
    paged = rows.keys(results_per_page=3)
    note("table.pages", "query them in pages of three", every, sorted(paged))
    first = next(iter(rows.table.query_entities(f"PartitionKey eq '{rows.partition}'", select=["b"])))
    note("table.select", "query the field b alone", ["b"], sorted(first))


def check_date(scene: Scene) -> None:
    """Compare the time of a reply with this machine's."""
    rows, replies = _Rows(scene, "date"), list[Any]()
    list(rows.table.query_entities(f"PartitionKey eq '{rows.partition}'", raw_response_hook=replies.append))
    moment = date_of(replies[0])
    apart = None if moment is None else abs(datetime.now(UTC) - moment)
    said = "near" if apart is not None and apart <= _MOST_APART else f"{apart} apart" if apart else "no time"
    scene.notes.note("table.date", "compare the time of a reply with this machine's", "near", said)


CHECKS: Final = (
    CheckEntry(check_insert, ("table.insert",)),
    CheckEntry(check_condition, ("table.condition", "table.etag")),
    CheckEntry(check_atomic, ("table.atomic",)),
    CheckEntry(check_limit, ("table.limit",)),
    CheckEntry(check_merge, ("table.merge", "table.replace")),
    CheckEntry(check_queries, ("table.order", "table.range", "table.pages", "table.select")),
    CheckEntry(check_date, ("table.date",)),
)
