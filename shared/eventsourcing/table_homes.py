"""The event store in the table `homes`. A home is a partition, so that it changes in one transaction.

A lost reply leaves open whether a commit took effect, and the library may have sent it twice. So every event carries
the nonce of its commit. After any answer but a clear yes, the event of the expected version is read. With this nonce,
the commit was written. With another one, it lost. Without the event, nothing was written.
"""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import LOST_RACE, GroupOperation, error_code, expecting_an_answer, write_group
from shared.errors import ConflictError, DuplicateError, HomeCorruptError
from shared.eventsourcing.chain import Proof, hash_row, prove
from shared.eventsourcing.home_rows import (
    EVENT,
    HEAD,
    INBOX,
    MEMENTO,
    PROCESS,
    CommitRows,
    corrupt,
    encode_commit,
    event_key,
    event_of,
    head_of,
    inbox_key,
    inbox_of,
    process_of,
    sending_of,
    version_beside,
)
from shared.eventsourcing.homes import Commit, Event, Head, Heads, Home, Memento, Sending
from shared.eventsourcing.memento_store import MementoStore

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
