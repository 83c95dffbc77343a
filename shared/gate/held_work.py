"""Holding work behind a gate, and dispatching what may start: level-triggered, at least once.

keeper                      releaser                     operator
reads: closed at epoch 4
opens: epoch 5
finds no row
writes the row (epoch 4)                                 closes
reads again: 4 < 5          ... or the tick, if the keeper ends here
puts the message, deletes the row
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from azure.storage.queue import QueueServiceClient

from shared.answers import expecting_an_answer
from shared.clock import Clock
from shared.errors import StorageUnavailableError
from shared.gate.decisions import must_dispatch
from shared.gate.gates import Gates
from shared.gate.held import HeldEntry, HeldTable, check_message
from shared.gate.state import GateState, Reading, checked_name
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import told

#: Rows dispatched at a time, below the ten connections that the library keeps for one service.
PARALLEL: Final = 8
#: Azure drops a queue message after seven days unless it is told never to.
NEVER_EXPIRES: Final = -1


class Holding(Enum):
    """What became of work that was handed to a gate."""

    #: The gate was open: the message is on its queue.
    PASSED = "passed"
    #: The message waits behind the gate.
    HELD = "held"
    #: The gate was opened while the message was being held; its own keeper put it on its queue.
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What one release did."""

    put: int = 0
    failed: int = 0
    #: The gate by which it was decided.
    state: GateState | None = field(default=None, compare=False, repr=False)


class HeldWork:
    """The work behind the gates of one installation."""

    def __init__(
        self, gates: Gates, table: HeldTable, queues: QueueServiceClient, clock: Clock, parallel: int = PARALLEL
    ) -> None:
        self._gates, self._table, self._queues, self._clock = gates, table, queues, clock
        self._parallel = parallel

    def hold(self, gate: str, entry_id: str, queue: str, message: str) -> Holding:
        """Put the message on its queue if the gate is open, else keep it until the next opening.

        Safe to call again with the same arguments after any failure. The message may then be put twice, so whoever
        receives it absorbs duplicates.
        """
        checked_name(gate)
        check_message(checked_name(entry_id, "held entry"), message)
        found = self._gates.read(gate).reading
        entry = HeldEntry(
            gate=gate, id=entry_id, epoch=found.epoch, queue=queue, message=message, held_at=self._clock.now()
        )
        if found.is_open:
            self._put(entry)
            return Holding.PASSED
        kept = self._table.insert(entry)
        # Between the first reading and the row, the gate may have been opened, served and closed again: no signal and
        # no releaser would have seen this row.
        if not must_dispatch(kept.epoch, self._gates.read(gate).reading):
            return Holding.HELD
        self._dispatch(kept)
        return Holding.RELEASED

    async def hold_async(self, gate: str, entry_id: str, queue: str, message: str) -> Holding:
        """Do what `hold` does without blocking the event loop."""
        return await asyncio.to_thread(self.hold, gate, entry_id, queue, message)

    def reading(self, gate: str) -> Reading:
        """Return the gate's epoch and whether it is open."""
        return self._gates.read(gate).reading

    def waiting(self) -> Iterator[tuple[str, datetime]]:
        """Yield every gate that something is held behind, and a time since when."""
        return self._table.waiting()

    def release(self, gate: str) -> Dispatched:
        """Dispatch everything behind the gate that may start now; the flag decides, not whoever calls.

        Any number of releasers may run at once: each row is put at least once and removed once. What cannot be put is
        counted, logged, and stays for the next tick.
        """
        state = self._gates.read(checked_name(gate))
        reading = state.reading
        if reading.epoch == 0 and not reading.is_open:
            return Dispatched(state=state)
        tried: Counter[bool] = Counter()
        with ThreadPoolExecutor(self._parallel) as pool:
            for page in self._table.pages(gate, None if reading.is_open else reading.epoch):
                tried.update(pool.map(self._try_dispatch, self._due(gate, page, reading)))
        return Dispatched(tried[True], tried[False], state)

    async def release_async(self, gate: str) -> Dispatched:
        """Do what `release` does without blocking the event loop."""
        return await asyncio.to_thread(self.release, gate)

    def _due(self, gate: str, page: list[HeldEntry], before: Reading) -> Iterable[HeldEntry]:
        """Return the rows that may start; `before` was read before them, so its epoch alone counts."""
        sure = [entry for entry in page if entry.epoch < before.epoch]
        unsure = [entry for entry in page if entry.epoch >= before.epoch]
        return [*sure, *self._due_by_now(gate, unsure)]

    def _due_by_now(self, gate: str, unsure: list[HeldEntry]) -> Iterator[HeldEntry]:
        if unsure:
            later = self._gates.read(gate).reading
            yield from (entry for entry in unsure if must_dispatch(entry.epoch, later))

    def _try_dispatch(self, entry: HeldEntry) -> bool:
        try:
            self._dispatch(entry)
        except StorageUnavailableError as error:
            tell(events.HELD_UNDISPATCHED, gate=entry.gate, entry=entry.id, queue=entry.queue, error=told(error))
            return False
        return True

    def _dispatch(self, entry: HeldEntry) -> None:
        # Put before delete: a crash in between puts the message again, the other order would lose it.
        self._put(entry)
        with expecting_an_answer(f"forget held {entry.id!r} of gate {entry.gate!r}, which is dispatched"):
            self._table.delete(entry)

    def _put(self, entry: HeldEntry) -> None:
        with expecting_an_answer(f"put held {entry.id!r} of gate {entry.gate!r} on queue {entry.queue!r}"):
            self._queues.get_queue_client(entry.queue).send_message(entry.message, time_to_live=NEVER_EXPIRES)
