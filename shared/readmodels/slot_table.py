"""The tables of views. A row is one view, the home that it shows, and the version that it has seen."""

import json
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableClient

from shared.azure import expecting_an_answer
from shared.errors import ViewCorruptError
from shared.readmodels.projection import View, ViewKey

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
    #: The version of the home that the view shows. 0: it shows nothing yet.
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
        return _stored(row, str(row.metadata["etag"]))


def _stored(row: Any, etag: str) -> StoredView:
    place = ViewPlace(row["PartitionKey"], row["RowKey"])
    try:
        return StoredView(place=place, home=row["home"], seen=int(row["seen"]), view=json.loads(row["view"]), etag=etag)
    except (KeyError, ValueError, TypeError) as error:
        raise ViewCorruptError(
            f"could not read the view {place.key!r} of {place.partition!r}: {error!r}; another program changed the row, "
            "delete it: the next event of its home makes it anew from the log"
        ) from error
