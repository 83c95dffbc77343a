"""The index of everything that still needs somebody, found by one range query whatever the history.

A row is only a pointer: it is written before the state that it points to and removed after that state needs nobody
any more, so a crash in between leaves at worst a pointer to nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from azure.data.tables import TableClient, UpdateMode

from shared.answers import expecting_an_answer, told_at

#: Due whenever somebody looks.
AT_ONCE: Final = datetime(1970, 1, 1, tzinfo=UTC)
_AFTER_EVERY_ID: Final = "~"
PARTITION: Final = "pending"


@dataclass(frozen=True, slots=True)
class Pointer:
    """One thing of a kind that needs somebody from a time on, with the ETag of its row."""

    kind: str
    due: datetime
    id: str
    etag: str = ""
    #: How far whoever follows it has come; not part of its key.
    note: str = ""

    @property
    def row_key(self) -> str:
        """The key by which due rows come first; whole seconds, so compare what it points to by them too."""
        return f"{_due_text(self.due)}|{self.kind}|{self.id}"


class PendingTable:
    """The index in a table, all of it in one partition.

    A range of one partition is read from its start, however many pointers are due in the future; one partition for
    each kind would cost a request for each, and a range over all partitions the reading of the whole table.
    """

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def add(self, pointer: Pointer) -> Pointer:
        """Write the row, also over an equal one: its new ETag protects it from the removal of the old one.

        Returns the pointer as its own writer may remove it.
        """
        row = {"PartitionKey": PARTITION, "RowKey": pointer.row_key}
        row |= {"note": pointer.note} if pointer.note else {}
        with expecting_an_answer(f"note that {pointer.kind} {pointer.id!r} is due"):
            written = self._table.upsert_entity(row, mode=UpdateMode.REPLACE)
        return replace(pointer, etag=str(written["etag"]))

    def due(self, now: datetime, reply: Callable[[Any], object] = lambda _reply: None) -> Iterator[Pointer]:
        """Yield what is due, of every kind, the oldest first; `reply` sees each reply of storage as it comes."""
        limit = _due_text(now) + _AFTER_EVERY_ID
        with expecting_an_answer("read what is due"):
            known = {"partition": PARTITION, "limit": limit}
            wanted = "PartitionKey eq @partition and RowKey lt @limit"
            for row in self._table.query_entities(wanted, parameters=known, raw_response_hook=reply):
                due, kind, name = row["RowKey"].split("|", 2)
                etag, note = str(row.metadata["etag"]), row.get("note", "")
                yield Pointer(kind, datetime.fromisoformat(due), name, etag, note)

    def known(self, until: datetime) -> tuple[list[Pointer], datetime | None]:
        """Return what will be due by then, and the time that storage told with its last reply."""
        replies: list[Any] = []
        found = list(self.due(until, replies.append))
        return found, told_at(replies[-1]) if replies else None

    def remove(self, pointer: Pointer) -> None:
        """Remove the row as it was seen; one that was written again since stays."""
        # A refusal means that somebody pointed there again after this row was read, and needs it.
        with expecting_an_answer(f"forget that {pointer.kind} {pointer.id!r} was due"), suppress(ResourceModifiedError):
            self._table.delete_entity(
                PARTITION, pointer.row_key, etag=pointer.etag, match_condition=MatchConditions.IfNotModified
            )


def _due_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
