"""What the app's timer does for gates: everything that a signal would have done, from the flags alone.

With nothing held and nothing due it makes two requests: one finds no gate that holds something, one finds nothing due.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from shared.clock import Clock
from shared.errors import DispatchIncompleteError
from shared.gate.decisions import closed_after_once, needs_pointer, opened_when_due
from shared.gate.gates import Gates
from shared.gate.held_work import Dispatched
from shared.gate.operator import signal
from shared.gate.receipts import SeenBy
from shared.gate.releaser import Releaser
from shared.gate.state import is_name
from shared.pending import GATE_POINTER, PendingTable, Pointer
from shared.signals import Signals
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import place, told

#: Minutes between two lines about a gate that holds work.
HOLDING_TOLD_EVERY: Final = 15


class GateTick:
    """Serves every gate that holds something or is due; may run any number of times, also side by side."""

    def __init__(self, gates: Gates, releaser: Releaser, pending: PendingTable, signals: Signals, clock: Clock) -> None:
        self._gates, self._releaser = gates, releaser
        self._pending, self._signals, self._clock = pending, signals, clock

    def run(self, pointers: Iterable[Pointer] | None = None, until: float = math.inf) -> dict[str, Dispatched]:
        """Serve them and return what was dispatched by gate; one that fails does not keep the others waiting.

        `pointers`: what is due, where the caller has read it already. `until`: the moment, by the clock that only moves
        forward, after which nothing further is started; gates that are due are opened all the same.
        """
        now = self._clock.now()
        due: defaultdict[str, list[Pointer]] = defaultdict(list)
        for pointer in self._pending.due(now) if pointers is None else pointers:
            if pointer.kind == GATE_POINTER and is_name(pointer.id):
                due[pointer.id].append(pointer)
        waiting = {gate: since for gate, since in self._releaser.waiting() if is_name(gate)}
        names = sorted({*due, *waiting})
        problems: list[str] = []
        done = {gate: self._tried(partial(self._serve, gate, due[gate], now, until), gate, problems) for gate in names}
        if now.minute % HOLDING_TOLD_EVERY == 0:
            _tell_holding({gate: now - since for gate, since in waiting.items() if not done[gate].put})
        if problems:
            raise DispatchIncompleteError(f"held work stays for the next tick: {'; '.join(problems)}")
        return done

    def _tried(self, serve: Callable[[], Dispatched], gate: str, problems: list[str]) -> Dispatched:
        try:
            done = serve()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one gate, the others are served
            tell(events.GATE_UNSERVED, gate=gate, error=told(error), at=place(error))
            problems.append(f"gate {gate!r}: {told(error)}")
            return Dispatched()
        if done.failed:
            problems.append(f"gate {gate!r}: {done.failed} of {done.put + done.failed} could not be put")
        return done

    def _serve(self, gate: str, pointers: list[Pointer], now: datetime, until: float) -> Dispatched:
        if not pointers:
            return self._releaser.release(gate, SeenBy.POLL, "tick", until=until)
        epoch = self._open_when_due(gate)
        done = self._releaser.release(gate, SeenBy.POLL, "tick", until=until)
        if not done.failed and not done.left:
            self._gates.change(gate, lambda found: closed_after_once(found, epoch, now))
        for pointer in pointers:
            self._drop_if_stale(gate, pointer)
        return done

    def _open_when_due(self, gate: str) -> int:
        # By the clock of storage, told in the reply that the gate was read from: whichever instance ticks is 10 minutes
        # ahead, and a reply that came after retries is none of now. An opening for once needs no pointer of its own:
        # the one that led here stays until the gate is closed.
        of_reply = self._clock.of_reply
        changed = self._gates.change_by_time(gate, lambda state, told: opened_when_due(state, of_reply(told)))
        if changed.is_opening:
            signal(self._signals, gate, changed.after)
        return changed.after.epoch

    def _drop_if_stale(self, gate: str, pointer: Pointer) -> None:
        """Remove a pointer that leads nowhere any more.

        A writer may stand between its pointer and its state. It has read the gate before the write here, so its own
        write fails, and it points anew before it tries again: the row then has another ETag and stays.
        """
        fenced = self._gates.change(gate, lambda found: found if needs_pointer(found, pointer.due) else replace(found))
        if fenced.before is not fenced.after:
            self._pending.remove(pointer)


def _tell_holding(waits: Mapping[str, timedelta]) -> None:
    for gate, wait in waits.items():
        if (hours := int(wait / timedelta(hours=1))) > 0:
            tell(events.GATE_HOLDING, gate=gate, hours=hours)
