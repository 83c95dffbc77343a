"""The rows of a home, and back.

The keys of a partition sort in the order in which one query reads them:

- `e|0000000042`: an event. It is inserted and never changed. The last one of a write has also what the write sends.
  Each has the hash of the former one (`chain`).
- `head`: the version, and the hash of the last event. Every commit writes it.
- `i|ID`: the id of an outside message. It is inserted and never changed.
- `process`: the state of the process.
- `s`: the memento. Only `read_memento` reads it.

JSON is stored as ASCII text, over several columns if one does not hold it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from shared.azure import MOST_GROUP_BYTES, MOST_GROUP_ROWS, Entity, check_limits, entity_size
from shared.errors import CommitTooLargeError, HomeCorruptError, LaterFormatError, RowTooLargeError
from shared.eventsourcing.chain import CHAIN, FORMER, hash_row, read_anchor, write_anchor
from shared.eventsourcing.homes import MOST_EVENTS, Commit, Event, Head, Sending

EVENT: Final = "e|"
HEAD: Final = "head"
INBOX: Final = "i|"
PROCESS: Final = "process"
MEMENTO: Final = "s"
#: The format of the rows of this module.
FORMAT: Final = 1
#: Characters of JSON in one column. A column takes 32 Ki.
_WIDTH: Final = 32_000
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
    pieces = (text[first : first + _WIDTH] for first in range(0, len(text), _WIDTH))
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
