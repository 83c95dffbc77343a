"""The app's reaction to an opened gate: dispatch the held work, and leave a receipt.

`Releaser` acts on a signal. `GateTick` is the timer's part: from the flags alone, it does all that a lost signal would
have caused. With nothing held and nothing due, a tick makes two requests: one finds no gate that holds an entry, one
finds nothing due.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Protocol

from shared.clock import Clock
from shared.errors import DispatchIncompleteError, SignalNotSentError, SluiceError
from shared.gate.gate_decisions import close_after_once, needs_pointer, open_if_due
from shared.gate.gates import Gates
from shared.gate.held_work import TAKES_FOR, Dispatched, HeldWork, Jobs
from shared.gate.receipts import Receipt, ReceiptTable, SeenBy, this_node
from shared.gate.state import GateState, is_name
from shared.grammar import is_job
from shared.pending import GATE_POINTER, PendingTable, Pointer
from shared.signals import Hint, Signals
from shared.telemetry import SILENT, Telemetry, describe_error, events, metrics, place, tell

#: The time between two ticks unless it is set otherwise. A release that is later than this is a straggler.
TICK_INTERVAL: Final = timedelta(seconds=60)


class GoingOn(Jobs, Protocol):
    """Starts held jobs, and continues jobs whose dispatch stopped for lack of time."""

    def go_on(self, job: str, until: float, /) -> None:
        """Continue the job of a hint if its row and its gate allow it."""
        ...


class Releaser:
    """Starts the work held behind a gate, and records which node did it."""

    def __init__(  # noqa: PLR0913 - each is another part of the app
        self,
        work: HeldWork,
        jobs: GoingOn,
        receipts: ReceiptTable,
        signals: Signals,
        *,
        clock: Clock,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._work, self._jobs, self._receipts, self._signals = work, jobs, receipts, signals
        self._clock, self._telemetry = clock, telemetry

    def waiting(self) -> Iterator[tuple[str, datetime]]:
        """Yield every gate that holds an entry, with the time of one."""
        return self._work.waiting()

    def on_signal(self, hint: Hint) -> Dispatched:
        """Act on a signal. Errors of Sluice are logged only, because the next tick finds all that is left."""
        if not (is_job(hint.job) if hint.job else is_name(hint.gate)):
            tell(events.SIGNAL_REFUSED)
            return Dispatched()
        until = self._clock.monotonic() + TAKES_FOR.total_seconds()
        try:
            if hint.job:
                self._jobs.go_on(hint.job, until)
                return Dispatched()
            return self.release(hint.gate, SeenBy.PUSH, "release_gate", since=hint.since, until=until)
        except SluiceError as error:
            tell(events.SIGNAL_UNSERVED, gate=hint.gate, job=hint.job, error=describe_error(error))
            return Dispatched()

    def release(self, gate: str, how: SeenBy, role: str, *, since: str = "", until: float = math.inf) -> Dispatched:
        """Start the entries that may start, and leave a receipt if any was started.

        If the time is up before all are started, send a signal, so that another invocation goes on.
        """
        done = self._work.release(gate, self._jobs, since=since, until=until, how=how)
        if done.left and done.state:
            # If no signal can be sent, the next tick goes on.
            with suppress(SignalNotSentError):
                self._signals.send(gate, done.state.epoch, done.left)
        if done.put and done.state:
            now = self._clock.now()
            receipt = Receipt(
                gate=gate,
                epoch=done.state.epoch,
                node=this_node(role),
                how=how,
                seen_at=now,
                lag=max(timedelta(), now - (done.state.at or now)),
                interval=TICK_INTERVAL,
            )
            self._receipts.write(receipt)
            lag = round(receipt.lag.total_seconds(), 3)
            self._telemetry.add(metrics.RELEASE_LAG, lag, seen_by=how.value)
            tell(events.GATE_RELEASED, gate=gate, epoch=receipt.epoch, put=done.put, seen_by=how.value, lag_seconds=lag)
        return done


#: Minutes between two log lines about a gate that holds work.
HOLDING_TOLD_EVERY: Final = 15


class GateTick:
    """Serves every gate that holds an entry or is due. Any number of ticks may run, also side by side."""

    def __init__(self, gates: Gates, releaser: Releaser, pending: PendingTable, signals: Signals, clock: Clock) -> None:
        self._gates, self._releaser = gates, releaser
        self._pending, self._signals, self._clock = pending, signals, clock

    def run(self, pointers: Iterable[Pointer] | None = None, until: float = math.inf) -> dict[str, Dispatched]:
        """Serve the gates, each alone, and return the outcome of each by name.

        With `pointers`, the caller has read the due pointers already. After `until`, in the clock's monotonic seconds,
        nothing further is started, but gates that are due are still opened. A failing gate does not stop the others:
        DispatchIncompleteError names all failures at the end.
        """
        now = self._clock.now()
        due: defaultdict[str, list[Pointer]] = defaultdict(list)
        for pointer in self._pending.due(now) if pointers is None else pointers:
            if pointer.kind == GATE_POINTER and is_name(pointer.id):
                due[pointer.id].append(pointer)
        waiting = {gate: since for gate, since in self._releaser.waiting() if is_name(gate)}
        names = sorted({*due, *waiting})
        problems: list[str] = []
        done = {
            gate: self._try_serve(partial(self._serve, gate, due[gate], now, until), gate, problems) for gate in names
        }
        if now.minute % HOLDING_TOLD_EVERY == 0:
            _log_holding({gate: now - since for gate, since in waiting.items() if not done[gate].put})
        if problems:
            raise DispatchIncompleteError(f"held work stays for the next tick: {'; '.join(problems)}")
        return done

    def _try_serve(self, serve: Callable[[], Dispatched], gate: str, problems: list[str]) -> Dispatched:
        try:
            done = serve()
        except Exception as error:  # noqa: BLE001 - one broken gate must not stop the service of the others
            tell(events.GATE_UNSERVED, gate=gate, error=describe_error(error), at=place(error))
            problems.append(f"gate {gate!r}: {describe_error(error)}")
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
            self._gates.change(gate, lambda found: close_after_once(found, epoch, now))
        for pointer in pointers:
            self._drop_if_stale(gate, pointer)
        return done

    def _open_when_due(self, gate: str) -> int:
        # By the clock of storage, from the reply that holds the gate's state: the clock of the instance that ticks may
        # be 10 minutes ahead. After retries, its time at the request is not that of the reply either. An opening for
        # once needs no pointer of its own: the pointer that led here stays until the gate is closed.
        of_reply = self._clock.of_reply
        changed = self._gates.change_by_time(gate, lambda state, at: open_if_due(state, of_reply(at)))
        if changed.is_opening:
            send_signal(self._signals, gate, changed.after)
        return changed.after.epoch

    def _drop_if_stale(self, gate: str, pointer: Pointer) -> None:
        """Remove a pointer that leads to no work any more.

        A writer may be between the write of its pointer and the write of its state. It read the gate before the write
        here, so its own write fails, and it writes the pointer again before its next attempt. The row then has another
        ETag and stays.
        """
        fenced = self._gates.change(gate, lambda found: found if needs_pointer(found, pointer.due) else replace(found))
        if fenced.before is not fenced.after:
            self._pending.remove(pointer)


def _log_holding(waits: Mapping[str, timedelta]) -> None:
    for gate, wait in waits.items():
        if (hours := int(wait / timedelta(hours=1))) > 0:
            tell(events.GATE_HOLDING, gate=gate, hours=hours)


def send_signal(signals: Signals, gate: str, state: GateState) -> str:
    """Signal the opening to all listeners. Return "", or why no signal was sent: no failure, because the flag decides."""
    try:
        signals.send(gate, state.epoch)
    except SignalNotSentError as error:
        tell(events.SIGNAL_UNSENT, gate=gate, epoch=state.epoch)
        return str(error)
    return ""
