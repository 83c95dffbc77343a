"""Receipts: which node saw which epoch of a gate, how, and how late."""

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

from shared.azure import expecting_an_answer
from shared.errors import StorageUnavailableError
from shared.telemetry import events, tell

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


def _receipt(row: Any) -> Receipt:
    return Receipt(
        gate=row["PartitionKey"],
        epoch=row["epoch"],
        node=row["node"],
        how=SeenBy(row["how"]),
        seen_at=row["seen_at"],
        lag=timedelta(seconds=row["lag_seconds"]),
        interval=timedelta(seconds=row["interval_seconds"]),
    )
