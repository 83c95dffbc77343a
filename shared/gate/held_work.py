"""Holds work behind a gate, and starts the entries that may start: level-triggered, at least once.

The hardest interleaving, and why the keeper reads the gate again after it wrote the row:

    keeper                      releaser                     operator
    reads: closed at epoch 4
                                                             opens: epoch 5
                                finds no row
    writes the row (epoch 4)                                 closes
    reads again: 4 < 5          ... or the tick, if the keeper ends here
    puts the message, deletes the row
"""

import math
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, Protocol

from azure.storage.queue import QueueServiceClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import SluiceError
from shared.gate.gate_decisions import must_dispatch
from shared.gate.gates import Gates
from shared.gate.held import HeldEntry, HeldTable, check_message
from shared.gate.receipts import NO_MARK, OneMark, SeenBy, make_mark
from shared.gate.state import GateState, Reading, check_name
from shared.telemetry import describe_error, events, tell

#: Rows dispatched at a time. Fewer than the ten connections that the library keeps for one service.
PARALLEL: Final = 8
#: Azure drops a queue message after seven days unless this value is sent with it.
NEVER_EXPIRES: Final = -1
#: How long an invocation begins further entries, or further chunks of a job. Another invocation does the rest.
TAKES_FOR: Final = timedelta(seconds=40)


class Holding(Enum):
    """The outcome of handing work to a gate."""

    #: The gate was open: the message is on its queue.
    PASSED = "passed"
    #: The message waits behind the gate.
    HELD = "held"
    #: The gate was opened while the message was being held. Its own keeper put it on its queue.
    RELEASED = "released"


class Jobs(Protocol):
    """Starts the entries that are put on no queue: the app's own jobs."""

    def is_job(self, entry: HeldEntry, /) -> bool:
        """Return True if the entry is a job."""
        ...

    def carry_out(self, entry: HeldEntry, gate: Reading, until: float, mark: OneMark, /) -> bool:
        """Start the job, which this reading allows. Return False if the time was up before all of it was dispatched.

        Its first chunk message gets the mark, unless another one has it.
        """
        ...


class HeldFate(Enum):
    """The outcome of one release for an entry that may start."""

    PUT = "put"
    FAILED = "failed"
    #: The time was up.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The outcome of one release."""

    put: int = 0
    failed: int = 0
    #: The id from which another release goes on if the time was up. Empty if nothing was left.
    left: str = ""
    #: The gate state that the release went by.
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

        Safe to call again with the same arguments after any failure. The message may then be put twice, so its
        receiver must absorb duplicates.
        """
        check_name(gate)
        check_message(check_name(entry_id, "held entry"), message)
        found = self._gates.read(gate).reading
        entry = HeldEntry(
            gate=gate, id=entry_id, epoch=found.epoch, queue=queue, message=message, held_at=self._clock.now()
        )
        if found.is_open:
            self._put(entry)
            return Holding.PASSED
        kept = self._table.insert(entry)
        # Between the first reading and the row, the gate may have been opened, served and closed again. No signal and
        # no releaser would then have seen this row.
        if not must_dispatch(kept.epoch, self._gates.read(gate).reading):
            return Holding.HELD
        self._put(kept)
        self.forget(kept)
        return Holding.RELEASED

    def keep(self, gate: str, entry_id: str, queue: str, message: str, epoch: int) -> HeldEntry:
        """Write the row, or find it, even if the gate is open now. The caller reads the gate again afterwards."""
        check_message(entry_id, message)
        now = self._clock.now()
        return self._table.insert(
            HeldEntry(gate=gate, id=entry_id, epoch=epoch, queue=queue, message=message, held_at=now)
        )

    def forget(self, entry: HeldEntry) -> None:
        """Delete the row of an entry that was dispatched."""
        with expecting_an_answer(f"delete held {entry.id!r} of gate {entry.gate!r}, which is dispatched"):
            self._table.delete(entry)

    def reading(self, gate: str) -> Reading:
        """Return the gate's epoch and whether it is open."""
        return self._gates.read(gate).reading

    def waiting(self) -> Iterator[tuple[str, datetime]]:
        """Yield every gate that holds an entry, with the time of one."""
        return self._table.waiting()

    def release(
        self, gate: str, jobs: Jobs, *, since: str = "", until: float = math.inf, how: SeenBy | None = None
    ) -> Dispatched:
        """Start everything behind the gate that may start now. The gate's flag decides, not the caller.

        Any number of releasers may run at once: each row is put at least once and removed once. An entry that cannot be
        put is counted, logged, and stays for the next tick. With `since`, only entries from that id on are started.
        After `until`, in the clock's monotonic seconds, no further entry is begun. `how` the caller saw the opening is
        marked on the first chunk.
        """
        state = self._gates.read(check_name(gate))
        reading = state.reading
        if reading.epoch == 0 and not reading.is_open:
            return Dispatched(state=state)
        fates: Counter[HeldFate] = Counter()
        left, mark = "", make_mark(gate, state, how)
        with ThreadPoolExecutor(self._parallel) as pool:
            for page in self._table.pages(gate, None if reading.is_open else reading.epoch, since):
                due = self._due(gate, page, reading)
                page_fates = list(pool.map(lambda pair: self._try_release(pair[0], pair[1], jobs, until, mark), due))
                fates.update(page_fates)
                if self._clock.monotonic() >= until:
                    pairs = zip(due, page_fates, strict=True)
                    left = min((entry.id for (entry, _), fate in pairs if fate is HeldFate.LEFT), default=page[-1].id)
                    break
        return Dispatched(fates[HeldFate.PUT], fates[HeldFate.FAILED], left, state)

    def _due(self, gate: str, page: list[HeldEntry], before: Reading) -> list[tuple[HeldEntry, Reading]]:
        """Return the rows that may start, each with the reading that allows it. Of `before`, only the epoch counts."""
        older = [(entry, before) for entry in page if entry.epoch < before.epoch]
        others = [entry for entry in page if entry.epoch >= before.epoch]
        if not others:
            return older
        # `before` was read before the rows: if it says open, that may be from before the closing that they met.
        later = self._gates.read(gate).reading
        return [*older, *((entry, later) for entry in others if must_dispatch(entry.epoch, later))]

    def _try_release(self, entry: HeldEntry, gate: Reading, jobs: Jobs, until: float, mark: OneMark) -> HeldFate:
        if self._clock.monotonic() >= until:
            return HeldFate.LEFT
        try:
            # What was held after the opening does not wait for it.
            return self._dispatch(entry, gate, jobs, until, mark if entry.epoch < gate.epoch else NO_MARK)
        except SluiceError as error:
            tell(
                events.HELD_UNDISPATCHED,
                gate=entry.gate,
                entry=entry.id,
                queue=entry.queue,
                error=describe_error(error),
            )
            return HeldFate.FAILED

    def _dispatch(self, entry: HeldEntry, gate: Reading, jobs: Jobs, until: float, mark: OneMark) -> HeldFate:
        if not jobs.is_job(entry):
            self._put(entry)
        elif not jobs.carry_out(entry, gate, until, mark):
            return HeldFate.LEFT
        # Put before the row is deleted: a crash in between puts it again, while the other order would lose it.
        self.forget(entry)
        return HeldFate.PUT

    def _put(self, entry: HeldEntry) -> None:
        with expecting_an_answer(f"put held {entry.id!r} of gate {entry.gate!r} on queue {entry.queue!r}"):
            self._queues.get_queue_client(entry.queue).send_message(entry.message, time_to_live=NEVER_EXPIRES)
