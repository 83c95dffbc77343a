"""The table `agenda`: what is due later, in shards, each read from its start only as far as now.

Three kinds of rows:

- A note: these homes may have something unsent. It is written before them, and removed after the sends. If its writer
  ended in between, the tick follows it.
- A timeout: the truth of it. The scheduled message on the bus is a hint.
- An alias: the home of a number. It sorts behind every due row, so no range meets it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias
from uuid import uuid4
from zlib import crc32

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import MOST_GROUP_ROWS, delete_rows, expecting_an_answer, write_group
from shared.processes.homes import Fields

#: A shard is one partition of the table. Their number never changes: rows name theirs. An agenda of fewer folds them.
SHARDS: Final = 4
#: Homes of one note.
MOST_HOMES: Final = 50
#: Rows of one reading.
MOST_DUE: Final = 1000
#: Between a note and its due time. Its writer needs less, and removes it. A slower one loses nothing: the note is moved.
NOTE_AFTER: Final = timedelta(seconds=12)
_SEND, _EXPIRE, _ALIAS = "send", "expire", "~"


@dataclass(frozen=True, slots=True)
class Note:
    """These homes may have something unsent."""

    shard: int
    due: datetime
    id: str
    #: The version that each home has after its write. 0: its writer did not know it yet.
    homes: Mapping[str, int]
    #: When its writer began. A follower moves `due`, and never this.
    since: datetime
    #: The number that leads to the home which its writer makes.
    number: int | None = None
    etag: str = ""

    @property
    def row_key(self) -> str:
        """The key, sorted by the due time."""
        return f"{_text(self.due)}|{_SEND}|{self.id}"


@dataclass(frozen=True, slots=True)
class TimeoutRow:
    """A timeout of the process in this home."""

    shard: int
    due: datetime
    home: str
    name: str
    etag: str = ""

    @property
    def row_key(self) -> str:
        """The key, sorted by the due time."""
        return f"{_text(self.due)}|{_EXPIRE}|{self.home}"


@dataclass(frozen=True, slots=True)
class Alias:
    """A number by which people know a home. Its shard follows from it."""

    number: int
    home: str
    etag: str = ""

    @property
    def shard(self) -> int:
        """The shard, also of the notes and timeouts of this home."""
        return self.number % SHARDS

    @property
    def row_key(self) -> str:
        """The key, which is behind every due row."""
        return f"{_ALIAS}{self.number}"


AgendaRow: TypeAlias = Note | TimeoutRow | Alias


@dataclass(frozen=True, slots=True)
class DueRows:
    """The rows of one shard that are due, the oldest first."""

    notes: tuple[Note, ...] = ()
    timeouts: tuple[TimeoutRow, ...] = ()


class Agenda:
    """The rows of one kind of process."""

    def __init__(self, table: TableClient, shards: int = SHARDS) -> None:
        self._table, self.shards = table, shards

    def write(self, rows: Sequence[AgendaRow]) -> list[AgendaRow]:
        """Write rows, one transaction a shard, and return them with their ETags. Rows of one key are written over."""
        return [row for shard, some in self._by_shard(rows) for row in self._write(shard, some)]

    def _write(self, shard: int, rows: Sequence[AgendaRow]) -> Iterator[AgendaRow]:
        for begin in range(0, len(rows), MOST_GROUP_ROWS):
            some = rows[begin : begin + MOST_GROUP_ROWS]
            with expecting_an_answer(f"note {len(some)} rows in shard {shard} of the agenda"):
                etags = write_group(
                    self._table, [("upsert", _entity(shard, row), {"mode": UpdateMode.REPLACE}) for row in some]
                )
            yield from (replace(row, etag=etag) for row, etag in zip(some, etags, strict=True))

    def read_due(self, shard: int, now: datetime, most: int = MOST_DUE) -> DueRows:
        """Return the rows of a shard that are due, in one request."""
        wanted, known = "PartitionKey eq @shard and RowKey lt @limit", {"shard": _partition(shard), "limit": _end(now)}
        with expecting_an_answer(f"read what is due in shard {shard} of the agenda"):
            pages = self._table.query_entities(wanted, parameters=known, results_per_page=most).by_page()
            found = list(next(pages, ()))
        rows = [_row(shard, entity) for entity in found]
        return DueRows(
            tuple(row for row in rows if isinstance(row, Note)),
            tuple(row for row in rows if isinstance(row, TimeoutRow)),
        )

    def find(self, number: int) -> str | None:
        """Return the home of a number, in one request."""
        alias = Alias(number, "")
        with expecting_an_answer(f"find number {number}"):
            try:
                return str(self._table.get_entity(_partition(alias.shard % self.shards), alias.row_key)["home"])
            except ResourceNotFoundError:
                return None

    def remove(self, rows: Sequence[AgendaRow]) -> None:
        """Remove rows, a hundred a transaction. One that is gone, or was written again after its ETag, is passed over."""
        for shard, some in self._by_shard(rows):
            with expecting_an_answer(f"remove {len(some)} rows of shard {shard} of the agenda"):
                # One without an ETag is removed however it is now: its writer knows that its home needs it no more.
                delete_rows(self._table, [(_partition(shard), row.row_key, row.etag) for row in some])

    def _by_shard(self, rows: Sequence[AgendaRow]) -> list[tuple[int, list[AgendaRow]]]:
        # A transaction takes each key once; of two equal rows the last one counts.
        keyed: dict[int, dict[str, AgendaRow]] = {}
        for row in rows:
            keyed.setdefault(row.shard % self.shards, {})[row.row_key] = row
        return [(shard, list(some.values())) for shard, some in keyed.items()]


def notes_of(
    shard: int, homes: Mapping[str, int], now: datetime, number: int | None = None, after: timedelta = NOTE_AFTER
) -> list[Note]:
    """Return new notes of homes that are written now, with their versions after it. They are due `after` that."""
    items = list(homes.items())
    parts = [dict(items[begin : begin + MOST_HOMES]) for begin in range(0, len(items), MOST_HOMES)]
    return [Note(shard, now + after, uuid4().hex, some, now, number) for some in parts]


def shard_of_home(home: str, fields: Fields) -> int:
    """Return the shard of a home's rows: that of its number, which people find it by, or else of its name."""
    number = fields.get("number")
    return (number if isinstance(number, int) else crc32(home.encode())) % SHARDS


def _entity(shard: int, row: AgendaRow) -> dict[str, Any]:
    entity: dict[str, Any] = {"PartitionKey": _partition(shard), "RowKey": row.row_key}
    if isinstance(row, Note):
        number = {} if row.number is None else {"number": str(row.number)}
        return {**entity, "homes": json.dumps(row.homes), "since": _text(row.since), **number}
    return {**entity, "name": row.name} if isinstance(row, TimeoutRow) else {**entity, "home": row.home}


def _row(shard: int, entity: Any) -> Note | TimeoutRow:
    due, kind, name = entity["RowKey"].split("|", 2)
    at, etag = datetime.fromisoformat(due), str(entity.metadata["etag"])
    if kind == _SEND:
        since = datetime.fromisoformat(entity["since"])
        number = int(entity["number"]) if "number" in entity else None
        return Note(shard, at, name, json.loads(entity["homes"]), since, number, etag)
    return TimeoutRow(shard, at, name, str(entity["name"]), etag)


def _partition(shard: int) -> str:
    return f"a-{shard}"


def _end(now: datetime) -> str:
    """Return the first key behind everything that is due: the next second's."""
    return _text(now + timedelta(seconds=1))


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
