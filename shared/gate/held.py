"""Entries held behind gates: opaque messages, each with its destination queue, one table row each."""

import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import TableClient

from shared.azure import delete_rows, expecting_an_answer
from shared.errors import HeldConflictError, MessageRefusedError
from shared.telemetry import events, tell

#: The limit of one storage queue message and of one binary property of a table: 64 KiB for both.
MOST_BYTES: Final = 64 * 1024
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FAR: Final = datetime(9999, 12, 31, tzinfo=UTC)
#: So the destination of a message for the bus begins.
_BUS: Final = "bus:"
#: The slices into which many entries of one gate are divided: several instances release them at the same time.
SLICES: Final = 16
#: A queue message travels in XML 1.0, which cannot carry these characters. JSON escapes them anyway.
_NOT_CARRIED: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldEntry:
    """One message behind a gate, with the epoch at which its keeper (the process that holds it) found the gate closed."""

    gate: str
    id: str
    epoch: int
    queue: str
    message: str
    held_at: datetime
    #: The deadline and the chunks of a job. A foreign message, and a job of an earlier version, has neither.
    deadline: datetime | None = None
    chunks: int = 1
    #: The slice that its row names. None: an earlier version wrote the row.
    slice: int | None = None
    #: The number of an order. None: it is no order, or an earlier version wrote the row.
    number: int | None = None
    etag: str = ""
    #: Storage's own time of the row, in all its digits. Empty: the row was not read.
    arrived: str = field(default="", compare=False)

    @property
    def is_order(self) -> bool:
        """True if its message goes to the bus: such entries start in the order of a roll."""
        return self.queue.startswith(_BUS)

    def order(self, chunk_seconds: float) -> tuple[datetime, str]:
        """Return the key by which a release sorts its entries: those with a deadline first, by their slack.

        The slack is the deadline minus the predicted time of the job's chunks.
        """
        if self.deadline is None:
            return _FAR, self.id
        return self.deadline - timedelta(seconds=self.chunks * chunk_seconds), self.id

    def is_same_work(self, other: "HeldEntry") -> bool:
        """Return True if both put the same message on the same queue. The epochs may differ.

        The messages of an order may differ too: each says whether its events were sent when it was written.
        """
        if (self.gate, self.id, self.queue) != (other.gate, other.id, other.queue):
            return False
        is_same_order = self.number is not None and self.number == other.number
        return is_same_order or self.message == other.message


def check_message(entry_id: str, message: str) -> None:
    """Raise MessageRefusedError for a message that a table could hold but no queue could carry."""
    found = _NOT_CARRIED.search(message)
    if found:
        raise MessageRefusedError(
            f"cannot hold {entry_id!r}: its message has the character U+{ord(found[0]):04X}, which a storage queue "
            "cannot carry; write the message as JSON with escapes"
        )
    size = len(message.encode())
    if size > MOST_BYTES:
        raise MessageRefusedError(
            f"cannot hold {entry_id!r}: its message is {size} bytes, the limit of a storage queue is {MOST_BYTES}; "
            "put the content into a blob and send its name"
        )


@dataclass(frozen=True, slots=True)
class HeldSummary:
    """The number of entries held behind a gate, and the time of the oldest."""

    count: int
    oldest: datetime | None
    #: Whether orders are among them.
    has_orders: bool = False


class HeldTable:
    """The table of held entries, one partition per gate."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def insert(self, entry: HeldEntry) -> HeldEntry:
        """Write the row, or find the row of an earlier attempt. Return the entry that the table holds now."""
        with expecting_an_answer(f"hold {entry.id!r} behind gate {entry.gate!r}"):
            try:
                written = self._table.create_entity(_row(entry))
            except AzureError:
                # The row exists from an earlier attempt, or this attempt's reply was lost: only the row itself shows it.
                return self._get_entry(entry)
            return replace(entry, etag=written["etag"])

    def has(self, entry: HeldEntry) -> bool:
        """Check whether an entry of this id is held."""
        with expecting_an_answer(f"look for {entry.id!r} behind gate {entry.gate!r}"):
            try:
                self._table.get_entity(entry.gate, entry.id, select=["RowKey"])
            except ResourceNotFoundError:
                return False
            return True

    def _get_entry(self, entry: HeldEntry) -> HeldEntry:
        found = _entry(self._table.get_entity(entry.gate, entry.id))
        if found.is_same_work(entry):
            return found
        raise HeldConflictError(
            f"cannot hold {entry.id!r} behind gate {entry.gate!r}: another message for queue {found.queue!r} has been "
            f"held under that id since {found.held_at:%Y-%m-%d %H:%M:%S} UTC; use another id"
        )

    def pages(
        self,
        gate: str,
        before: int | None = None,
        since: str = "",
        *,
        number: int | None = None,
        is_urgent: bool = False,
    ) -> Iterator[list[HeldEntry]]:
        """Yield the entries behind a gate, page by page, sorted by id.

        With `before`, only entries that found the gate closed at an older epoch. With `since`, only from that id on.
        With `number`, only those of that slice. `is_urgent`: only those with a deadline.
        """
        condition = "PartitionKey eq @gate and RowKey ge @since"
        condition += "" if before is None else " and epoch lt @before"
        condition += "" if number is None else " and slice eq @number"
        condition += " and deadline lt @far" if is_urgent else ""
        with expecting_an_answer(f"read the entries held behind gate {gate!r}"):
            values = {"gate": gate, "before": before or 0, "since": since, "number": number or 0, "far": _FAR}
            query = self._table.query_entities(condition, parameters=values)
            for page in query.by_page():
                yield [entry for row in page if (entry := _readable(row)) is not None]

    def summary(self, gate: str) -> "HeldSummary":
        """Count the entries behind a gate, and find the time of the oldest."""
        with expecting_an_answer(f"count the entries held behind gate {gate!r}"):
            rows = list(
                self._table.query_entities(
                    "PartitionKey eq @gate", parameters={"gate": gate}, select=["held_at", "queue"]
                )
            )
        has_orders = any(row["queue"].startswith(_BUS) for row in rows)
        return HeldSummary(len(rows), min((row["held_at"] for row in rows), default=None), has_orders)

    def summaries(self) -> dict[str, "HeldSummary"]:
        """Count the entries behind every gate that holds one. Makes one request per thousand entries."""
        since = defaultdict[str, list[datetime]](list)
        with expecting_an_answer("count the entries held behind all gates"):
            for row in self._table.list_entities(select=["PartitionKey", "held_at"]):
                since[row["PartitionKey"]].append(_since(row))
        return {gate: HeldSummary(len(times), min(times)) for gate, times in since.items()}

    def waiting(self) -> Iterator[tuple[str, datetime]]:
        """Yield every gate that holds an entry, with the time of one of them. The oldest entry may be older.

        Makes one request per gate, and one more.
        """
        after = ""
        with expecting_an_answer("find the gates that hold entries"):
            while found := self._first_after(after):
                yield found
                after, _ = found

    def delete_all(self, entries: Sequence[HeldEntry]) -> None:
        """Delete rows behind one gate that are still as they were read. Another process owns one that was written since."""
        delete_rows(self._table, [(entry.gate, entry.id, entry.etag) for entry in entries])

    def _first_after(self, gate: str) -> tuple[str, datetime] | None:
        rows = self._table.query_entities(
            "PartitionKey gt @gate", parameters={"gate": gate}, select=["PartitionKey", "held_at"], results_per_page=1
        )
        row = next(iter(rows), None)
        if row is None:
            return None
        return row["PartitionKey"], _since(row)


def _since(row: Mapping[str, Any]) -> datetime:
    since = row.get("held_at")
    # A row that another program wrote must not stop the service of all gates.
    return since if isinstance(since, datetime) else _LONG_AGO


def slice_of(entry_id: str) -> int:
    """Return the slice of an entry, which depends on its id alone."""
    return zlib.crc32(entry_id.encode()) % SLICES


def _row(entry: HeldEntry) -> dict[str, Any]:
    row = {
        "PartitionKey": entry.gate,
        "RowKey": entry.id,
        "epoch": entry.epoch,
        "queue": entry.queue,
        # As bytes: a string property holds half as much as a queue message.
        "message": entry.message.encode(),
        "held_at": entry.held_at,
        "deadline": entry.deadline,
        "chunks": None if entry.chunks == 1 else entry.chunks,
        "slice": entry.slice,
        "number": None if entry.number is None else str(entry.number),
    }
    return {name: value for name, value in row.items() if value is not None}


def _readable(row: Any) -> HeldEntry | None:
    try:
        return _entry(row)
    except (KeyError, TypeError, ValueError, AttributeError):
        tell(events.HELD_UNREADABLE, gate=row["PartitionKey"], entry=row["RowKey"])
        return None


def _entry(row: Any) -> HeldEntry:
    return HeldEntry(
        gate=row["PartitionKey"],
        id=row["RowKey"],
        epoch=int(row["epoch"]),
        queue=str(row["queue"]),
        message=row["message"].decode(),
        held_at=row["held_at"],
        deadline=deadline if isinstance(deadline := row.get("deadline"), datetime) else None,
        chunks=int(row.get("chunks", 1)),
        slice=row.get("slice"),
        number=int(row["number"]) if "number" in row else None,
        etag=row.metadata["etag"],
        arrived=arrived.tables_service_value if (arrived := row.metadata["timestamp"]) else "",
    )
