"""The tables of views. A row is one view, the home that it shows, and the version of that home that it has seen."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final, NamedTuple

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import (
    LOST_RACE,
    MOST_GROUP_BYTES,
    MOST_GROUP_ROWS,
    check_limits,
    entity_size,
    error_code,
    expecting_an_answer,
    write_group,
)
from shared.errors import ViewCorruptError
from shared.readmodels.projection import View, ViewKey

#: Rows of one answer to a query.
PAGE: Final = 1000
#: The refusals that mean that another writer was first, or removed the row.
_LOST: Final = LOST_RACE | {"ResourceNotFound"}
_dumps: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode


class ViewPlace(NamedTuple):
    """The keys of a row. The version is part of them, so that a slot that is being emptied cannot mix versions."""

    partition: str
    key: str

    @classmethod
    def of(cls, model: str, version: int, key: ViewKey) -> "ViewPlace":
        """Return the place of a key's row."""
        return cls(f"{model}.{version}|{key.shard:02}", key.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredView:
    """One row."""

    place: ViewPlace
    home: str
    #: The version of the home that the view shows. 0: it shows no event yet.
    seen: int
    view: View | None
    #: Of the stored row. Empty: it is not stored yet.
    etag: str = ""


def canonical(view: View | None) -> str:
    """Return a view as the text that is stored and compared."""
    return _dumps(view)


class SlotTable:
    """One of the two tables of views."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def find(self, place: ViewPlace) -> StoredView | None:
        """Return a row, or None. One request."""
        with expecting_an_answer(f"read the view {place.key!r} of {place.partition!r}"):
            try:
                row = self._table.get_entity(place.partition, place.key)
            except ResourceNotFoundError:
                return None
        return _view_of(row)

    def try_write(self, views: Sequence[StoredView]) -> list[StoredView] | None:
        """Write rows of one partition, all or none, each in place of the row that it was made from.

        None: another writer was first with one of them. After StorageUnavailableError they may have been written. A
        repetition then finds rows that have seen as much.
        """
        where = views[0].place.partition
        with expecting_an_answer(f"write {len(views)} views of {where!r}"):
            try:
                etags = write_group(self._table, [_operation(one) for one in views])
            except AzureError as error:
                if error_code(error) in _LOST:
                    return None
                raise
        return [replace(one, etag=etag) for one, etag in zip(views, etags, strict=True)]

    def scan(self, model: str, version: int) -> Iterator[list[StoredView]]:
        """Yield all rows of a version, a page at a time."""
        for page in self._pages(f"{model}.{version}|", f"{model}.{version}}}"):
            yield [_view_of(row) for row in page]

    def read_page(self, model: str, version: int, after: ViewPlace | None, most: int) -> list[StoredView]:
        """Return the rows of a version that follow a place, `most` of them unless fewer are left. Mostly one request."""
        low = after or ViewPlace(f"{model}.{version}|", "")
        wanted = "( PartitionKey gt @low and PartitionKey lt @high ) or ( PartitionKey eq @low and RowKey gt @key )"
        known = {"low": low.partition, "high": f"{model}.{version}}}", "key": low.key}
        pages = self._table.query_entities(wanted, parameters=known, results_per_page=most).by_page()
        with expecting_an_answer(f"list the views behind {low.partition!r}"):
            # A page may be empty although others follow it.
            return next(([_view_of(row) for row in rows] for page in pages if (rows := list(page))), [])

    def old_rows(self, model: str) -> Iterator[list[Any]]:
        """Yield the keys and ETags of all rows of a model, of every version, a page at a time."""
        yield from self._pages(f"{model}.", f"{model}/", select=["PartitionKey", "RowKey"])

    def remove(self, page: Sequence[Any]) -> None:
        """Remove rows of a page of `old_rows` that are unchanged since, up to 100 in a transaction."""
        for partition, found in groupby(page, key=lambda row: str(row["PartitionKey"])):
            rows = list(found)
            for begin in range(0, len(rows), MOST_GROUP_ROWS):
                self._remove(partition, rows[begin : begin + MOST_GROUP_ROWS])

    def _remove(self, partition: str, rows: Sequence[Any]) -> None:
        operations = [("delete", dict(row), _is_unchanged(str(row.metadata["etag"]))) for row in rows]
        with expecting_an_answer(f"remove {len(rows)} views of {partition!r}"):
            try:
                write_group(self._table, operations)
            except AzureError as error:
                # A projector changed one meanwhile, or the reply to the first try was lost. They are listed again.
                if error_code(error) not in _LOST:
                    raise

    def _pages(self, low: str, high: str, select: list[str] | None = None) -> Iterator[list[Any]]:
        pages = self._table.query_entities(
            "PartitionKey ge @low and PartitionKey lt @high",
            parameters={"low": low, "high": high},
            results_per_page=PAGE,
            select=select,
        ).by_page()
        with expecting_an_answer(f"list the views of {low!r}"):
            for page in pages:
                # A page may be empty although others follow it.
                if rows := list(page):
                    yield rows


def split(views: Sequence[StoredView]) -> Iterator[list[StoredView]]:
    """Yield the views in parts that one transaction takes."""
    part: list[StoredView] = []
    size = 0
    for one in views:
        more = entity_size(_entity(one))
        if part and (len(part) == MOST_GROUP_ROWS or size + more > MOST_GROUP_BYTES):
            yield part
            part, size = [], 0
        part.append(one)
        size += more
    if part:
        yield part


def _operation(view: StoredView) -> Any:
    row = check_limits(_entity(view))
    if not view.etag:
        return ("create", row)
    return ("update", row, {"mode": UpdateMode.REPLACE, **_is_unchanged(view.etag)})


def _is_unchanged(etag: str) -> dict[str, Any]:
    return {"etag": etag, "match_condition": MatchConditions.IfNotModified}


def _entity(view: StoredView) -> dict[str, Any]:
    return {
        "PartitionKey": view.place.partition,
        "RowKey": view.place.key,
        "home": view.home,
        "seen": view.seen,
        "view": canonical(view.view),
    }


def _view_of(row: Any) -> StoredView:
    place = ViewPlace(row["PartitionKey"], row["RowKey"])
    try:
        return StoredView(
            place=place,
            home=row["home"],
            seen=int(row["seen"]),
            view=json.loads(row["view"]),
            etag=str(row.metadata["etag"]),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise ViewCorruptError(
            f"could not read the view {place.key!r} of {place.partition!r}: {error!r}; another program changed the row, "
            "delete it: the next event of its home makes it anew from the log"
        ) from error
