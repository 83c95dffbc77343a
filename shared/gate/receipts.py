"""Receipts: which node saw which epoch of a gate, how late, and when the first chunk of an opening began.

A release marks one chunk message. The worker that begins such a chunk writes one row for the gate and epoch, and the
first row stands. So a release costs one request more, however many jobs it starts.

Sums receipts up: how their delays are spread, and which nodes are late.
"""

import os
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from azure.core.exceptions import ResourceExistsError
from azure.data.tables import TableClient
from msgspec.structs import replace as with_fields

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import NewerVersionError, StorageUnavailableError
from shared.gate.state import GateState, is_name
from shared.messages import ChunkMessage, FirstChunkMark, encode
from shared.payload import Limits
from shared.telemetry import SILENT, Telemetry, events, metrics, tell

#: Row keys of receipts begin with a digit. An earlier version reads receipts from an epoch on, and these keys are
#: before every epoch.
_PREFIX: Final = "!first-chunk|"
#: The first row key behind those of that prefix.
_END: Final = "!first-chunk}"
#: A node counts as a straggler if it is later than its own poll interval by more than this.
GRACE: Final = timedelta(seconds=1)


class SeenBy(Enum):
    """The way in which a node saw an epoch."""

    PUSH = "push"
    POLL = "poll"
    #: The gate was open already when the node began to wait.
    START_UP = "start-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The record that one node has seen one epoch."""

    gate: str
    epoch: int
    node: str
    how: SeenBy
    seen_at: datetime
    lag: timedelta
    #: The time between two polls of this node, zero if it does not poll.
    interval: timedelta = timedelta()

    @property
    def is_late(self) -> bool:
        """True if the node saw it later than by polling. A node that started after the opening is not late."""
        return self.how is not SeenBy.START_UP and self.lag > self.interval + GRACE


def this_node(role: str = "") -> str:
    """Return the name of this process in receipts."""
    process = f"{socket.gethostname()}:{os.getpid()}"
    return f"{role}@{process}" if role else process


class ReceiptTable:
    """The table of receipts, one partition per gate. The first receipt of a node for an epoch stands."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def write(self, receipt: Receipt) -> None:
        """Write the receipt. Without an answer of storage, log it and go on: released work does not wait for it."""
        try:
            with expecting_an_answer(f"write the receipt of {receipt.node!r}"), suppress(ResourceExistsError):
                self._table.create_entity(_row(receipt))
        except StorageUnavailableError:
            tell(events.RECEIPT_UNWRITTEN, gate=receipt.gate, epoch=receipt.epoch)

    def of_epochs(self, gate: str, first: int) -> list[Receipt]:
        """Read the receipts of a gate from an epoch on."""
        wanted = {"gate": gate, "first": f"{first:010d}"}
        with expecting_an_answer(f"read the receipts of gate {gate!r}"):
            rows = self._table.query_entities("PartitionKey eq @gate and RowKey ge @first", parameters=wanted)
            return [_receipt(row) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstChunk:
    """The begin of the first chunk that an opening started."""

    gate: str
    epoch: int
    #: How the releaser saw the opening.
    how: SeenBy
    #: The process that began the chunk.
    node: str
    opened_at: datetime
    began_at: datetime

    @property
    def delay(self) -> timedelta:
        """The time from the opening to the begin of the chunk. It is as right as the two clocks."""
        return max(timedelta(), self.began_at - self.opened_at)


class OneMark:
    """The mark of one release, for one of its chunk messages. Several threads may take it."""

    def __init__(self, mark: FirstChunkMark | None) -> None:
        self._left = [] if mark is None else [mark]

    def put_on_first(self, messages: Sequence[ChunkMessage]) -> Sequence[ChunkMessage]:
        """Return the messages, the first one with the mark if that is left and fits."""
        try:
            # One operation, so two threads never take the same mark.
            mark = self._left.pop()
        except IndexError:
            return messages
        # With the mark `again`, which a repeated put adds.
        marked = [with_fields(message, first=mark, again=True) for message in messages[:1]]
        if not marked or len(encode(marked[0])) > Limits().message_bytes:
            self._left.append(mark)
            return messages
        return [with_fields(messages[0], first=mark), *messages[1:]]


#: For work that no opening started.
NO_MARK: Final = OneMark(None)


def make_mark(gate: str, state: GateState, how: SeenBy | None) -> OneMark:
    """Return the mark of a release at this state of its gate."""
    if how is None or state.at is None:
        return NO_MARK
    return OneMark(FirstChunkMark(gate=gate, epoch=state.epoch, opened_at=state.at, seen_by=how.value))


class FirstChunks:
    """The rows of first chunks, in the table of receipts."""

    def __init__(self, table: TableClient, clock: Clock, telemetry: Telemetry = SILENT) -> None:
        self._table, self._clock, self._telemetry = table, clock, telemetry

    def note(self, mark: FirstChunkMark) -> None:
        """Write that the marked chunk begins now, unless an earlier one is written. A failure is only logged."""
        if not is_name(mark.gate) or mark.seen_by not in {way.value for way in SeenBy}:
            return
        began = FirstChunk(
            gate=mark.gate,
            epoch=mark.epoch,
            how=SeenBy(mark.seen_by),
            node=this_node(),
            opened_at=mark.opened_at,
            began_at=self._clock.now(),
        )
        try:
            if not self._is_first(began):
                return
        except StorageUnavailableError:
            tell(events.RECEIPT_UNWRITTEN, gate=mark.gate, epoch=mark.epoch)
        delay = round(began.delay.total_seconds(), 3)
        self._telemetry.add(metrics.FIRST_CHUNK_DELAY, delay, seen_by=mark.seen_by)
        tell(events.FIRST_CHUNK_BEGUN, gate=mark.gate, epoch=mark.epoch, seen_by=mark.seen_by, delay_seconds=delay)

    def _is_first(self, began: FirstChunk) -> bool:
        with expecting_an_answer(f"write when the first chunk behind gate {began.gate!r} began"):
            try:
                self._table.create_entity(_row_of_first(began))
            except ResourceExistsError:
                return False
        return True

    def history(self, gate: str | None = None) -> list[FirstChunk]:
        """Return the first chunks of all epochs of a gate, or of all gates, the oldest first."""
        wanted = "RowKey ge @first and RowKey lt @end"
        parameters = {"first": _PREFIX, "end": _END}
        if gate is not None:
            wanted, parameters = f"PartitionKey eq @gate and {wanted}", {**parameters, "gate": gate}
        with expecting_an_answer("read when first chunks began"):
            rows: Iterable[Any] = list(self._table.query_entities(wanted, parameters=parameters))
        return sorted(map(_first_chunk, rows), key=lambda found: found.opened_at)


def _row(receipt: Receipt) -> dict[str, Any]:
    return {
        "PartitionKey": receipt.gate,
        "RowKey": f"{receipt.epoch:010d}|{receipt.node}",
        "epoch": receipt.epoch,
        "node": receipt.node,
        "how": receipt.how.value,
        "seen_at": receipt.seen_at,
        "lag_seconds": receipt.lag.total_seconds(),
        "interval_seconds": receipt.interval.total_seconds(),
    }


def _read_way(text: str) -> SeenBy:
    try:
        return SeenBy(text)
    except ValueError as error:
        raise NewerVersionError(
            f"a receipt says that its opening was seen by {text!r}, which this program does not know: deploy the newer "
            "version of Sluice that wrote it"
        ) from error


def _receipt(row: Any) -> Receipt:
    return Receipt(
        gate=row["PartitionKey"],
        epoch=row["epoch"],
        node=row["node"],
        how=_read_way(row["how"]),
        seen_at=row["seen_at"],
        lag=timedelta(seconds=row["lag_seconds"]),
        interval=timedelta(seconds=row["interval_seconds"]),
    )


def _row_of_first(found: FirstChunk) -> dict[str, Any]:
    return {
        "PartitionKey": found.gate,
        "RowKey": f"{_PREFIX}{found.epoch:010d}",
        "epoch": found.epoch,
        "node": found.node,
        "how": found.how.value,
        "opened_at": found.opened_at,
        "began_at": found.began_at,
    }


def _first_chunk(row: Any) -> FirstChunk:
    return FirstChunk(
        gate=row["PartitionKey"],
        epoch=row["epoch"],
        node=row["node"],
        how=_read_way(row["how"]),
        opened_at=row["opened_at"],
        began_at=row["began_at"],
    )


@dataclass(frozen=True, slots=True)
class Spread:
    """How some delays are spread, in seconds."""

    number: int
    p50: float
    p99: float


def spread(delays: Iterable[timedelta]) -> Spread | None:
    """Return how the delays are spread, or None without any."""
    lags = sorted(delay.total_seconds() for delay in delays)
    return Spread(len(lags), percentile(lags, 50), percentile(lags, 99)) if lags else None


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile of sorted values."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def stragglers(receipts: Iterable[Receipt], epoch: int) -> dict[str, str]:
    """Return the stragglers of an epoch by node, each with the reason.

    A straggler saw the epoch late, or saw the epoch before it and not this one.
    """
    found = list(receipts)
    present = {receipt.node: receipt for receipt in found if receipt.epoch == epoch}
    before = {receipt.node for receipt in found if receipt.epoch == epoch - 1}
    late = {node: f"{row.lag.total_seconds():.1f} s late" for node, row in sorted(present.items()) if row.is_late}
    return late | dict.fromkeys(sorted(before - set(present)), f"saw epoch {epoch - 1}, not {epoch}")
