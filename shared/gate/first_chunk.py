"""The delay from an opening to the begin of the first chunk: marked by the releaser, written by the worker.

A release marks one chunk message. The worker that begins such a chunk writes one row for the gate and epoch, and the
first row stands. So a release costs one request more, however many jobs it starts.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from azure.core.exceptions import ResourceExistsError
from azure.data.tables import TableClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import StorageUnavailableError
from shared.gate.receipts import SeenBy, this_node
from shared.gate.state import GateState, is_name
from shared.messages import FirstChunkMark
from shared.telemetry import SILENT, Telemetry, events, metrics, tell

#: Row keys of receipts begin with a digit: an earlier version, which reads these from an epoch on, never meets the rows
#: written here.
_PREFIX: Final = "!first-chunk|"
#: The first row key behind those of that prefix.
_END: Final = "!first-chunk}"
_WAYS: Final = frozenset(way.value for way in SeenBy)


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

    def take(self) -> FirstChunkMark | None:
        """Return the mark, or None if it was taken."""
        with suppress(IndexError):
            # One operation, so two threads never take the same mark.
            return self._left.pop()
        return None

    def give_back(self, mark: FirstChunkMark) -> None:
        """Leave the mark for another message."""
        self._left.append(mark)


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
        if not is_name(mark.gate) or mark.seen_by not in _WAYS:
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
                self._table.create_entity(_row(began))
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


def _row(found: FirstChunk) -> dict[str, Any]:
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
        how=SeenBy(row["how"]),
        opened_at=row["opened_at"],
        began_at=row["began_at"],
    )
