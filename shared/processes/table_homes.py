"""The event store in the table `homes`. A home is a partition, so that it changes in one transaction.

A lost reply leaves open whether a commit took effect, and the library may have sent it twice. So every event carries
the nonce of its commit. After any answer but a clear yes, the event of the expected version is read. With this nonce,
the commit was written. With another one, it lost. Without the event, nothing was written.

The rows of a home, and back.

The keys of a partition sort in the order in which one query reads them:

- `e|0000000042`: an event. It is inserted and never changed. The last one of a write has also what the write sends.
  Each has the hash of the former one (`chain`).
- `head`: the version, and the hash of the last event. Every commit writes it.
- `i|ID`: the id of an outside message. It is inserted and never changed.
- `process`: the state of the process.
- `s`: the memento. Only `read_memento` reads it.

JSON is stored as ASCII text, over several columns if one does not hold it.

Where mementos are stored: in a row of the home, and one that no row holds in a blob.

A memento saves reading, and no truth is only there. If it cannot be read, the events are read instead, and the next
commit writes a new one. Each blob has its own name, so that a commit that loses replaces nothing.
"""

import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode
from azure.storage.blob import ContainerClient

from shared.azure import (
    LOST_RACE,
    MOST_GROUP_BYTES,
    MOST_GROUP_ROWS,
    Entity,
    GroupOperation,
    check_limits,
    entity_size,
    error_code,
    expecting_an_answer,
    write_group,
)
from shared.errors import (
    CommitTooLargeError,
    ConflictError,
    DuplicateError,
    HomeCorruptError,
    LaterFormatError,
    RowTooLargeError,
)
from shared.processes.homes import (
    CHAIN,
    FORMER,
    MOST_EVENTS,
    Commit,
    Event,
    Head,
    Heads,
    Home,
    Memento,
    Proof,
    Sending,
    hash_row,
    prove,
    read_anchor,
    write_anchor,
)
from shared.zstd import ZstdError, pack, unpack

EVENT: Final = "e|"
HEAD: Final = "head"
INBOX: Final = "i|"
PROCESS: Final = "process"
MEMENTO: Final = "s"
#: The format of the rows of this module.
FORMAT: Final = 1
#: Characters of JSON in one column. A column takes 32 Ki.
_EVENT_WIDTH: Final = 32_000
#: Python's errors for a row that another program wrote.
_UNREADABLE: Final = (KeyError, ValueError, TypeError, AttributeError)
_dumps: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_loads: Final = json.JSONDecoder().decode
_VERSION: Final = re.compile(r"e\|([0-9]{10})")


def event_key(version: int) -> str:
    """Return the row key of an event. Keys sort in the order of the versions."""
    return f"{EVENT}{version:010}"


def inbox_key(id_: str) -> str:
    """Return the row key of an outside id. Two ids never share it, and storage takes every character of it."""
    return INBOX + quote(id_, safe="").replace("%", "=")


def event_row(home: str, version: int, event: Event, nonce: str) -> Entity:
    """Encode an event. The nonce tells its writer after a lost reply that it was written."""
    row: Entity = {"PartitionKey": home, "RowKey": event_key(version), "kind": event.kind, "at": event.at.isoformat()}
    row |= {"format": event.format, "nonce": nonce, **_spread(event.body)}
    # A column only where a value is given.
    given = {"command": event.command, "generation": event.generation, "is_private": not event.is_public}
    return check_limits(row | {name: value for name, value in given.items() if value})


def event_of(row: Mapping[str, Any]) -> Event:
    """Decode an event."""
    try:
        return Event(
            kind=row["kind"],
            body=_gather(row),
            at=datetime.fromisoformat(row["at"]),
            command=row.get("command", ""),
            generation=row.get("generation", 0),
            format=row["format"],
            is_public=not row.get("is_private", False),
            version=_version_of(row["RowKey"]),
        )
    except _UNREADABLE as error:
        raise corrupt(row, error) from error


def _event_rows(commit: Commit, head: Head) -> tuple[list[Entity], str]:
    """Encode the events of a commit, and return the hash of the last one too."""
    rows: list[Entity] = []
    hash_ = commit.former
    for version, event in enumerate(commit.events, commit.expected + 1):
        more = _sending_row(commit) if version == head.version else {}
        rows.append(check_limits(event_row(commit.home, version, event, head.nonce) | {FORMER: hash_} | more))
        hash_ = hash_row(rows[-1])
    return rows, hash_


def _sending_row(commit: Commit) -> Entity:
    """Encode what a write sends, as columns of its last event."""
    sends = {"sends": _dumps(list(map(dict, commit.commands)))} if commit.commands else {}
    return {"published": commit.published, **sends}


def sending_of(row: Mapping[str, Any]) -> Sending | None:
    """Decode what a write had sent. None: the row has not the last event of a write, or is older than these columns."""
    if "published" not in row:
        return None
    try:
        at, commands = datetime.fromisoformat(row["at"]), tuple(_loads(row.get("sends", "[]")))
        return Sending(_version_of(row["RowKey"]), at, int(row["published"]), commands)
    except _UNREADABLE as error:
        raise corrupt(row, error) from error


def _version_of(key: str) -> int:
    found = _VERSION.fullmatch(key)
    if found is None:
        raise ValueError(f"{key!r} is no key of an event")
    return int(found[1])


def head_row(commit: Commit, head: Head, last: str) -> Entity:
    """Encode the head with the hash of the last event. It is merged into the row, so fields that are not given stay."""
    row: Entity = {"PartitionKey": commit.home, "RowKey": HEAD, "version": head.version, "published": head.published}
    row |= {"nonce": head.nonce, "aggregate": head.aggregate, "format": FORMAT, CHAIN: write_anchor(head.version, last)}
    return check_limits(row if commit.fields is None else row | {"fields": _dumps(dict(commit.fields))})


def head_of(row: Mapping[str, Any]) -> Head:
    """Decode the head, unless a later version of Sluice wrote it."""
    try:
        if row["format"] > FORMAT:
            raise LaterFormatError(
                f"could not read home {row['PartitionKey']!r}: its rows have format {row['format']}, this version knows "
                f"formats up to {FORMAT}; deploy the later version again"
            )
        anchored, last = read_anchor(row)
        return Head(
            version=int(row["version"]),
            published=int(row["published"]),
            nonce=row["nonce"],
            aggregate=row["aggregate"],
            format=row["format"],
            last=last if anchored == int(row["version"]) else "",
            fields=_loads(row.get("fields", "{}")),
        )
    except _UNREADABLE as error:
        raise corrupt(row, error) from error


def rows_beside(commit: Commit, version: int, nonce: str) -> tuple[list[Entity], Entity | None]:
    """Encode the ids of the inbox and the process. Each has the version that wrote it."""
    marks = {"PartitionKey": commit.home, "version": version, "nonce": nonce}
    inbox = [
        check_limits(marks | {"RowKey": inbox_key(id_), "content": content}) for id_, content in commit.inbox.items()
    ]
    if commit.process is None:
        return inbox, None
    return inbox, check_limits(marks | {"RowKey": PROCESS, **_spread(commit.process)})


def inbox_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Decode an outside id and the hash of its content."""
    try:
        return unquote(row["RowKey"].removeprefix(INBOX).replace("=", "%")), row["content"]
    except _UNREADABLE as error:
        raise corrupt(row, error) from error


def version_beside(row: Mapping[str, Any]) -> int:
    """Return the version that wrote a process or an id of the inbox."""
    try:
        return int(row["version"])
    except _UNREADABLE as error:
        raise corrupt(row, error) from error


def process_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Decode a process."""
    try:
        return _gather(row)
    except _UNREADABLE as error:
        raise corrupt(row, error) from error


class CommitRows(NamedTuple):
    """The rows of one commit, within the limits of one transaction."""

    #: Inserted: the events, then the ids of the inbox.
    events: list[Entity]
    inbox: list[Entity]
    head: Entity
    process: Entity | None
    #: The hash of the last event.
    last: str


def encode_commit(commit: Commit, head: Head) -> CommitRows:
    """Encode a commit, or raise CommitTooLargeError. The memento is not among the rows, but counted."""
    tried = f"could not write {len(commit.events)} events after {commit.expected} of home {commit.home!r}"
    if not commit.events:
        raise ValueError(f"{tried}: only the insert of an event guards the write, so a commit has at least one")
    if len(commit.events) > MOST_EVENTS:
        raise CommitTooLargeError(f"{tried}: a commit takes {MOST_EVENTS}; divide it between commands")
    number = len(commit.events) + len(commit.inbox) + 1 + (commit.process is not None) + (commit.memento is not None)
    if number > MOST_GROUP_ROWS:
        raise CommitTooLargeError(
            f"{tried}: with the rows beside the events, they are {number} rows, {MOST_GROUP_ROWS} fit"
        )
    try:
        events, last = _event_rows(commit, head)
        inbox, process = rows_beside(commit, head.version, head.nonce)
        rows = CommitRows(events, inbox, head_row(commit, head, last), process, last)
    except RowTooLargeError as error:
        raise CommitTooLargeError(f"{tried}: {error}; put large values into a blob and store its name") from error
    size = sum(map(entity_size, [*events, *inbox, rows.head, *([process] if process else [])]))
    if size > MOST_GROUP_BYTES:
        raise CommitTooLargeError(f"{tried}: they have {size} bytes, {MOST_GROUP_BYTES} fit; write fewer at a time")
    return rows


def _spread(document: Mapping[str, Any]) -> Entity:
    """Return the columns of a document: body, body1, body2 and so on."""
    text = _dumps(dict(document))
    pieces = (text[first : first + _EVENT_WIDTH] for first in range(0, len(text), _EVENT_WIDTH))
    return {f"body{number or ''}": piece for number, piece in enumerate(pieces)}


def _gather(row: Mapping[str, Any]) -> Mapping[str, Any]:
    document = _loads("".join(join_columns(row, "body")))
    if not isinstance(document, dict):
        raise TypeError(f"its body is no object but {type(document).__name__}")
    return document


def join_columns(row: Mapping[str, Any], name: str) -> Iterable[Any]:
    """Yield the columns of one long value, in order."""
    number = 0
    while (column := f"{name}{number or ''}") in row:
        yield row[column]
        number += 1


def corrupt(row: Mapping[str, Any], error: object) -> HomeCorruptError:
    """Make the error of a row that Sluice cannot have written."""
    where = f"row {row.get('RowKey')!r} of home {row.get('PartitionKey')!r}"
    return HomeCorruptError(f"could not read {where}: {error!r}; restore the row from a backup")


#: Bytes of one column, and of all columns. A column takes 64 KiB and a row 1 MiB, which Azurite counts in Base64.
_MEMENTO_WIDTH: Final = 60 * 1024
_MOST_IN_A_ROW: Final = 700 * 1024


class MementoStore:
    """Mementos as rows of homes, with a container for large ones."""

    def __init__(self, container: ContainerClient, most_in_a_row: int = _MOST_IN_A_ROW) -> None:
        self._container, self._most_in_a_row = container, most_in_a_row

    def put(self, home: str, memento: Memento | None, nonce: str) -> Entity | None:
        """Return the row of a memento. A large one is in its blob before this returns."""
        if memento is None:
            return None
        row = {"PartitionKey": home, "RowKey": MEMENTO, "version": memento.version, "format": memento.format}
        packed = pack(memento.packed, level=1)
        if len(packed) > self._most_in_a_row:
            name = f"{home}/{memento.version:010}-{nonce}"
            self._container.upload_blob(name, packed, overwrite=True)
            return row | {"blob": name}
        pieces = (packed[first : first + _MEMENTO_WIDTH] for first in range(0, len(packed), _MEMENTO_WIDTH))
        return row | {f"packed{number or ''}": piece for number, piece in enumerate(pieces)}

    def memento_of(self, row: Mapping[str, Any]) -> Memento | None:
        """Return the memento of a row, or None if it cannot be read."""
        try:
            name = row.get("blob")
            packed = b"".join(join_columns(row, "packed")) if name is None else self._read(name)
            return Memento(row["version"], row["format"], unpack(packed))
        except (ZstdError, ResourceNotFoundError, KeyError, TypeError):
            return None

    def remove_earlier(self, row: Entity | None) -> None:
        """Remove the blobs that this row has replaced. What stays is removed after the next large memento."""
        if row is None or "blob" not in row:
            return
        home = row["PartitionKey"]
        # The row that leads to it is written. A failure here must not turn that success into an error.
        with suppress(AzureError):
            for name in list(self._container.list_blob_names(name_starts_with=f"{home}/")):
                # Another one of this version is of a commit that has lost.
                if name != row["blob"] and name.rpartition("-")[0] <= row["blob"].rpartition("-")[0]:
                    self._container.delete_blob(name)

    def _read(self, name: str) -> bytes:
        return self._container.download_blob(name).readall()


#: Rows of a page.
_PAGE: Final = 1000
#: Writes of one commit: a reply that was lost leaves nothing behind, or everything.
_WRITES: Final = 3
#: Reads of one home. Only a home of several pages that grows at the same moment needs a second one.
_READS: Final = 3
#: Behind the last event, and behind every key of a prefix.
_BEHIND: Final = "~"


def _new_nonce() -> str:
    return uuid.uuid4().hex


class TableHomes:
    """Homes in a table. Mementos that no row holds are in a container."""

    def __init__(
        self,
        table: TableClient,
        mementos: MementoStore,
        new_nonce: Callable[[], str] = _new_nonce,
        page: int = _PAGE,
    ) -> None:
        self._table, self._mementos, self._new_nonce, self._page = table, mementos, new_nonce, page

    def load(self, key: str, after: int = 0) -> Home | None:
        """Return the home with its events above `after`, or None."""
        found = self._load(key, after)
        return found and found[0]

    def load_proven(self, key: str) -> tuple[Home, Proof] | None:
        """Return the home with all its events, and what its chain says about them, or None. It costs what `load` does."""
        found = self._load(key, 0)
        return found and (found[0], prove(*found[1:]))

    def _load(self, key: str, after: int) -> tuple[Home, list[dict[str, Any]], dict[str, Any]] | None:
        """Return the home, the rows of its events and that of its head."""
        stored: list[dict[str, Any]] = []
        events: list[Event] = []
        for _ in range(_READS):
            known = events[-1].version if events else after
            with expecting_an_answer(f"load home {key!r}"):
                rows = list(self._list_between(key, event_key(known + 1), MEMENTO))
            if not rows and not events:
                return None
            new = [row for row in rows if row["RowKey"].startswith(EVENT)]
            stored += new
            events += map(event_of, new)
            beside = {row["RowKey"]: row for row in rows[len(new) :]}
            home = _assemble(key, after, events, list(beside.values()))
            if home is not None:
                if stored and not home.head.last:
                    # A version before the chain wrote it. The next event proves it.
                    home = replace(home, head=replace(home.head, last=hash_row(stored[-1])))
                return home, stored, beside[HEAD]
        raise HomeCorruptError(
            f"could not load home {key!r}: its events end at {events[-1].version if events else after}, and its other "
            f"rows are of another version in {_READS} readings; restore the partition from a backup"
        )

    def read_tail(self, key: str, after: int) -> list[Event]:
        """Return the events above a version, in order."""
        with expecting_an_answer(f"read the events of home {key!r} after {after}"):
            events = [event_of(row) for row in self._list_between(key, event_key(after + 1), EVENT + _BEHIND)]
        return _check_sequence(key, after, events)

    def read_sendings(self, key: str) -> list[Sending]:
        """Return what each write had sent, in order. One query for each thousand events."""
        with expecting_an_answer(f"read what home {key!r} had sent"):
            rows = self._list_between(key, EVENT, EVENT + _BEHIND)
            return [found for row in rows if (found := sending_of(row)) is not None]

    def read_head(self, key: str) -> Head | None:
        """Return the head, or None."""
        with expecting_an_answer(f"read the head of home {key!r}"):
            row = self._get(key, HEAD)
        return None if row is None else head_of(row)

    def read_memento(self, key: str) -> Memento | None:
        """Return the stored memento, or None."""
        with expecting_an_answer(f"read the memento of home {key!r}"):
            row = self._get(key, MEMENTO)
            return None if row is None else self._mementos.memento_of(row)

    def find_noted(self, key: str, id_: str) -> str | None:
        """Return the content of an outside id, or None."""
        with expecting_an_answer(f"read the id {id_[:120]!r} of home {key!r}"):
            row = self._get(key, inbox_key(id_))
        return None if row is None else inbox_of(row)[1]

    def commit(self, commit: Commit) -> Head:
        """Write everything in one transaction."""
        head = Head(
            version=commit.expected + len(commit.events),
            published=commit.published,
            nonce=self._new_nonce(),
            aggregate=commit.aggregate,
            fields=commit.fields or {},
        )
        rows = encode_commit(commit, head)
        with expecting_an_answer(f"write {len(rows.events)} events of home {commit.home!r}"):
            # A memento in a blob comes before the row that names it.
            memento = self._mementos.put(commit.home, commit.memento, head.nonce)
            self._write(commit, rows, _operations(rows, memento))
            self._mementos.remove_earlier(memento)
        return replace(head, last=rows.last)

    def heads(self, prefix: str, cursor: str = "") -> Heads:
        """Return a page of heads."""
        low = f"PartitionKey {'gt' if cursor else 'ge'} @low"
        with expecting_an_answer(f"list the homes after {cursor or prefix!r}"):
            pages = self._table.query_entities(
                f"{low} and PartitionKey lt @high and RowKey eq @head",
                parameters={"low": cursor or prefix, "high": prefix + _BEHIND, "head": HEAD},
                results_per_page=self._page,
            ).by_page()
            for page in pages:
                # Storage returns empty pages while it looks for the next head.
                if found := [(str(row["PartitionKey"]), head_of(row)) for row in page]:
                    return Heads(tuple(found), found[-1][0] if pages.continuation_token else None)  # type: ignore[attr-defined]
        return Heads((), None)

    def _write(self, commit: Commit, rows: CommitRows, operations: list[GroupOperation]) -> None:
        for write in range(1, _WRITES + 1):
            try:
                write_group(self._table, operations)
            except AzureError as error:
                if self._is_written(commit, rows, error):
                    return
                if write == _WRITES or _is_answer(error):
                    raise
            else:
                return

    def _is_written(self, commit: Commit, rows: CommitRows, error: AzureError) -> bool:
        """Read whether a commit took effect although the answer was not a yes, or raise what it lost to."""
        inbox = getattr(error, "index", 0) - len(rows.events)
        if error_code(error) in LOST_RACE and 0 <= inbox < len(rows.inbox):
            id_, content = list(commit.inbox.items())[inbox]
            found = self._get(commit.home, inbox_key(id_))
            if found is not None and found["nonce"] != rows.head["nonce"]:
                raise DuplicateError(
                    f"could not write home {commit.home!r}: it has {id_[:120]!r} since version {found['version']}",
                    id=id_,
                    is_same=inbox_of(found)[1] == content,
                )
        found = self._get(commit.home, rows.events[0]["RowKey"])
        if found is None or found["nonce"] == rows.head["nonce"]:
            return found is not None
        raise ConflictError(
            f"could not write {len(rows.events)} events of home {commit.home!r} after version {commit.expected}: "
            "another writer was first; load it and decide again"
        )

    def _get(self, key: str, row: str) -> dict[str, Any] | None:
        try:
            return self._table.get_entity(key, row)
        except ResourceNotFoundError as missing:
            if error_code(missing) == "TableNotFound":
                raise
            return None

    def _list_between(self, key: str, low: str, high: str) -> Iterator[dict[str, Any]]:
        return iter(
            self._table.query_entities(
                "PartitionKey eq @home and RowKey ge @low and RowKey lt @high",
                parameters={"home": key, "low": low, "high": high},
                results_per_page=self._page,
            )
        )


def _operations(rows: CommitRows, memento: dict[str, Any] | None) -> list[GroupOperation]:
    """Build the transaction. The events come first: the first refused row tells a conflict from a duplicate."""
    operations: list[GroupOperation] = [("create", row) for row in (*rows.events, *rows.inbox)]
    operations.append(("upsert", rows.head, {"mode": UpdateMode.MERGE}))
    replaced = [row for row in (rows.process, memento) if row is not None]
    return [*operations, *(("upsert", row, {"mode": UpdateMode.REPLACE}) for row in replaced)]


def _assemble(key: str, after: int, events: list[Event], others: list[dict[str, Any]]) -> Home | None:
    """Put a home together. None: the rows are of several versions, because a commit came between two pages."""
    _check_sequence(key, after, events)
    head = next((head_of(row) for row in others if row["RowKey"] == HEAD), None)
    if head is None:
        raise corrupt({"PartitionKey": key, "RowKey": HEAD}, "it has events and no head")
    beside = [row for row in others if row["RowKey"] != HEAD]
    latest = max([events[-1].version if events else 0, *map(version_beside, beside)])
    if latest > head.version or (events and events[-1].version < head.version) or (not events and after < head.version):
        return None
    process = next((process_of(row) for row in beside if row["RowKey"] == PROCESS), None)
    inbox = dict(inbox_of(row) for row in beside if row["RowKey"].startswith(INBOX))
    return Home(key, head, tuple(events), process, inbox)


def _check_sequence(key: str, after: int, events: list[Event]) -> list[Event]:
    """Return the events, or raise HomeCorruptError if one is missing: no fold may skip it."""
    for expected, event in enumerate(events, after + 1):
        if event.version != expected:
            raise corrupt({"PartitionKey": key, "RowKey": event_key(expected)}, "it is missing before a later event")
    return events


def _is_answer(error: AzureError) -> bool:
    """Check whether the service refused the write. Otherwise, it may still be on its way."""
    status = getattr(error, "status_code", None)
    return status is not None and 400 <= status < 500
