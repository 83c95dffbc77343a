"""Holds work behind a gate, and starts the entries that may start: level-triggered, at least once.

The hardest interleaving, and why the keeper reads the gate again after it wrote the row:

    keeper                      releaser                     operator
    reads: closed at epoch 4
                                                             opens: epoch 5
                                finds no row
    writes the row (epoch 4)                                 closes
    reads again: 4 < 5          ... or the tick, if the keeper ends here
    puts the message, deletes the row

Every gate of an installation: reads it, or changes it by one conditional write whose outcome is always found out.
"""

import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from shared.azure import OptimisticStore, expecting_an_answer, put_on
from shared.clock import Clock
from shared.errors import ContentionError, StorageUnavailableError
from shared.gate.held import HeldEntry, HeldTable, check_message, slice_of
from shared.gate.state import GateState, Reading, check_name, decode, encode, must_dispatch, sign

if TYPE_CHECKING:
    from azure.storage.queue import QueueServiceClient

#: Only people and the tick change gates: more lost races in a row mean that some program writes in a loop.
MOST_ATTEMPTS: Final = 20
#: The longest pause before the next attempt, in seconds.
LONGEST_PAUSE: Final = 0.2


class Changed(NamedTuple):
    """The gate before and after a change. Both are the same object if there was nothing to do."""

    before: GateState
    after: GateState

    @property
    def is_opening(self) -> bool:
        """True if this change began a new epoch."""
        return self.after.epoch > self.before.epoch


class _Read(NamedTuple):
    state: GateState
    etag: str | None = None
    reply_time: datetime | None = None


class Gates:
    """The gates of an installation, each in a store of its own."""

    def __init__(self, store_of: Callable[[str], OptimisticStore], pause: Callable[[float], None] = time.sleep) -> None:
        self._store_of, self._pause = store_of, pause

    def read(self, name: str) -> GateState:
        """Read the gate. A gate without a blob is closed and was never opened."""
        return self._read(name).state

    def change(
        self,
        name: str,
        decide: Callable[[GateState], GateState],
        prepare: Callable[[GateState], object] = lambda _state: None,
    ) -> Changed:
        """Write the state that `decide` returns, unless it is the very same object."""
        return self.change_by_time(name, lambda state, _reply_time: decide(state), prepare)

    def change_by_time(
        self,
        name: str,
        decide: Callable[[GateState, datetime | None], GateState],
        prepare: Callable[[GateState], object] = lambda _state: None,
    ) -> Changed:
        """Do the same, but decide by the time that storage gave in the very reply that holds the state.

        `prepare` runs between the read and the write of every attempt. So a pointer that it writes exists before the
        state that it leads to. The pointer is also newer than any clean-up that made the previous attempt fail.
        """
        tried: dict[str, Changed] = {}
        for _attempt in range(MOST_ATTEMPTS):
            before, etag, reply_time = self._read(name)
            # An earlier attempt may have taken effect, although it was refused or its reply was lost.
            written = next((change for nonce, change in tried.items() if before.was_written_with(nonce)), None)
            if written:
                return written
            after = decide(before, reply_time)
            if after is before:
                return Changed(before, before)
            prepare(after)
            nonce = secrets.token_hex(8)
            tried[nonce] = Changed(before, sign(before, after, nonce))
            if self._try_write(name, tried[nonce].after, etag):
                return tried[nonce]
            self._pause(random.uniform(0, LONGEST_PAUSE))  # noqa: S311 - spreads writers, hides nothing
        raise ContentionError(
            f"could not change gate {name!r}: other writers were faster {MOST_ATTEMPTS} times in a row; find them in "
            f"its history (`sluice gate status {name}`), then retry"
        )

    def _read(self, name: str) -> _Read:
        found = self._store_of(check_name(name)).read()
        return _Read(GateState()) if found is None else _Read(decode(found.value, name), found.etag, found.told)

    def _try_write(self, name: str, state: GateState, etag: str | None) -> bool:
        try:
            return self._store_of(name).try_write(encode(state), etag) is not None
        except StorageUnavailableError:
            return False


#: How long an invocation begins further entries, or further chunks of a job. Another invocation does the rest.
TAKES_FOR: Final = timedelta(seconds=40)


#: Sends entries behind the one of this id, all of them or not. Raises an error of Sluice if it may not have sent all.
SendHeld: TypeAlias = Callable[[Sequence[HeldEntry], Sequence[str]], object]


class Holding(Enum):
    """The outcome of handing work to a gate."""

    #: The gate was open: the message is on its queue.
    PASSED = "passed"
    #: The message waits behind the gate.
    HELD = "held"
    #: The gate was opened while the message was being held. Its own keeper put it on its queue.
    RELEASED = "released"


class Startable(NamedTuple):
    """An entry that may start, and the reading of its gate that allows it."""

    entry: HeldEntry
    gate: Reading


class HeldWork:
    """The work behind the gates of one installation."""

    def __init__(
        self,
        gates: Gates,
        table: HeldTable,
        queues: "QueueServiceClient",
        clock: Clock,
        point: Callable[[str], object],
    ) -> None:
        """Take the stores. `point` leaves a pointer to a queue, before a message is put there."""
        self._gates, self._table, self._queues, self._clock = gates, table, queues, clock
        self._point = point
        self._senders: dict[str, SendHeld] = {}

    def register(self, destination: str, send: "SendHeld") -> None:
        """Have entries for a destination that is no storage queue, such as `bus:starts`, sent by this call."""
        self._senders[destination] = send

    def sends(self, entry: HeldEntry) -> bool:
        """Check whether an entry is for such a destination: they are sent together, in the order of a roll."""
        return entry.queue in self._senders

    def hold(self, gate: str, entry_id: str, queue: str, message: str, number: int | None = None) -> Holding:
        """Put the message on its queue if the gate is open, else keep it until the next opening.

        Safe to call again with the same arguments after any failure. The message may then be put twice, so its
        receiver must absorb duplicates. `number`: that of an order.
        """
        check_name(gate)
        check_message(check_name(entry_id, "held entry"), message)
        found = self._gates.read(gate).reading
        entry = HeldEntry(
            gate=gate,
            id=entry_id,
            epoch=found.epoch,
            queue=queue,
            message=message,
            held_at=self._clock.now(),
            number=number,
        )
        if found.is_open:
            if self.sends(entry) and self._table.has(entry):
                # Its keeper did not know that it is held. It has a place on the roll, and may not go ahead of it.
                return Holding.HELD
            self.put(entry)
            return Holding.PASSED
        kept = self.keep(entry)
        if self.sends(kept):
            # Its keeper must not send it ahead of those on the roll. The releaser, or the next tick, finds the row.
            return Holding.HELD
        # Between the first reading and the row, the gate may have been opened, served and closed again. No signal and
        # no releaser would then have seen this row.
        if not must_dispatch(kept.epoch, self._gates.read(gate).reading):
            return Holding.HELD
        self.put(kept)
        self.forget(kept)
        return Holding.RELEASED

    def keep(self, entry: HeldEntry) -> HeldEntry:
        """Write the row, or find it, even if the gate is open now. The caller reads the gate again afterwards."""
        check_message(entry.id, entry.message)
        return self._table.insert(replace(entry, slice=slice_of(entry.id)))

    def forget(self, entry: HeldEntry) -> None:
        """Delete the row of an entry that was dispatched."""
        with expecting_an_answer(f"delete held {entry.id!r} of gate {entry.gate!r}, which is dispatched"):
            self._table.delete_all([entry])

    def forget_all(self, entries: Sequence[HeldEntry]) -> None:
        """Delete the rows of entries behind one gate that were dispatched."""
        with expecting_an_answer(f"delete {len(entries)} held entries that are dispatched"):
            self._table.delete_all(entries)

    def reading(self, gate: str) -> Reading:
        """Return the gate's epoch and whether it is open."""
        return self._gates.read(gate).reading

    def waiting(self) -> Iterator[tuple[str, datetime]]:
        """Yield every gate that holds an entry, with the time of one."""
        return self._table.waiting()

    def due_pages(
        self, state: GateState, gate: str, since: str = "", *, number: int | None = None, is_urgent: bool = False
    ) -> Iterator[list[Startable]]:
        """Yield the entries that may start by this state of their gate or by a later one, page by page.

        The filters are those of `HeldTable.pages`.
        """
        before = state.reading
        if before.epoch == 0 and not before.is_open:
            return
        older = None if before.is_open else before.epoch
        for page in self._table.pages(gate, older, since, number=number, is_urgent=is_urgent):
            yield self._due(gate, page, before)

    def _due(self, gate: str, page: list[HeldEntry], before: Reading) -> list[Startable]:
        """Return the rows that may start, each with the reading that allows it. Of `before`, only the epoch counts."""
        older = [Startable(entry, before) for entry in page if entry.epoch < before.epoch]
        others = [entry for entry in page if entry.epoch >= before.epoch]
        if not others:
            return older
        # `before` was read before the rows: if it says open, that may be from before the closing that they met.
        later = self._gates.read(gate).reading
        return [*older, *(Startable(entry, later) for entry in others if must_dispatch(entry.epoch, later))]

    def send(self, entries: Sequence[HeldEntry], before: Sequence[str] = ()) -> None:
        """Send entries for destinations that are no storage queues. `before`: the ids of those before them, if known."""
        for destination in dict.fromkeys(entry.queue for entry in entries):
            self._senders[destination]([entry for entry in entries if entry.queue == destination], before)

    def put(self, entry: HeldEntry) -> None:
        """Put the message of an entry on its queue."""
        if self.sends(entry):
            self.send([entry])
            return
        # A message of others has no job, whose pointer makes the tick look at the queue.
        self._point(entry.queue)
        tried = f"put held {entry.id!r} of gate {entry.gate!r} on queue {entry.queue!r}"
        put_on(self._queues, entry.queue, entry.message, tried=tried)
