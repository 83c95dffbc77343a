"""The app's reaction to an opened gate: dispatch the held work, and leave a receipt.

`Releaser` acts on a signal. `GateTick` is the timer's part: from the flags alone, it does all that a lost signal would
have caused. Both open a gate whose planned opening is due. With nothing held and nothing due, a tick makes two requests: one finds no gate that holds an entry, one
finds nothing due.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import partial
from typing import Final, Protocol

from shared.clock import Clock
from shared.errors import DispatchIncompleteError, GateCorruptError, NewerVersionError, SignalNotSentError, SluiceError
from shared.gate.held_work import TAKES_FOR, Gates, HeldWork
from shared.gate.outflow import Dispatched, Outflow, is_place
from shared.gate.receipts import Receipt, ReceiptTable, SeenBy, this_node
from shared.gate.state import GateState, close_after_once, is_name, needs_pointer, open_if_due
from shared.grammar import is_job
from shared.pending import GATE_POINTER, PendingTable, Pointer
from shared.signals import Hint, Signals, send_signal
from shared.telemetry import SILENT, Telemetry, describe_error, events, metrics, place, tell
from shared.topology import GUARD, LOOKS_EVERY
from shared.watch import NeedKind, TickNeeds

#: The time between two ticks unless it is set otherwise. A release that is later than this is a straggler.
TICK_INTERVAL: Final = timedelta(seconds=60)
#: How much too early a signal for a planned opening may come. One that comes earlier is left to the tick.
EARLY: Final = timedelta(seconds=5)


class GoingOn(Protocol):
    """Continues jobs whose dispatch stopped for lack of time."""

    def go_on(self, job: str, until: float, /) -> object:
        """Continue the job of a hint if its row and its gate allow it."""
        ...

    def leave_to_tick(self, job: str, /) -> None:
        """Have the next tick continue the job."""
        ...


class Releaser:
    """Starts the work held behind a gate, and records which node did it."""

    def __init__(  # noqa: PLR0913 - each is another part of the app
        self,
        gates: Gates,
        outflow: Outflow,
        jobs: GoingOn,
        receipts: ReceiptTable,
        signals: Signals,
        *,
        clock: Clock,
        telemetry: Telemetry = SILENT,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._gates, self._outflow, self._jobs = gates, outflow, jobs
        self._receipts, self._signals = receipts, signals
        self._clock, self._telemetry, self._pause = clock, telemetry, pause

    def on_signal(self, hint: Hint, deliveries: int = 1) -> Dispatched:
        """Act on a signal. Errors of Sluice are logged only, because the next tick finds all that is left.

        One that was delivered before had a holder that died, whose slices are still leased. So it stays for the time of GUARD.
        """
        stays_until = self._clock.monotonic() + (GUARD.total_seconds() if deliveries > 1 else 0.0)
        while (done := self._serve(hint)).is_shared and self._clock.monotonic() < stays_until:
            self._pause(LOOKS_EVERY)
        return done

    def _serve(self, hint: Hint) -> Dispatched:
        if not (is_job(hint.job) if hint.job else is_place(hint)):
            tell(events.SIGNAL_REFUSED)
            return Dispatched()
        until = self._clock.monotonic() + TAKES_FOR.total_seconds()
        try:
            if hint.job:
                self._go_on(hint.job, until)
                return Dispatched()
            return self.release(hint, SeenBy.PUSH, "release_gate", until, patience=EARLY)
        except NewerVersionError as error:
            tell(events.NEWER_VERSION, found=str(error))
            return Dispatched()
        except SluiceError as error:
            tell(events.SIGNAL_UNSERVED, gate=hint.gate, job=hint.job, error=describe_error(error))
            return Dispatched()

    def release(
        self, place: Hint, how: SeenBy, role: str, until: float, *, patience: timedelta = timedelta()
    ) -> Dispatched:
        """Open the gate if that is due, start the entries that may start, and leave a receipt if any was started.

        The gate's flag decides, not the caller. Any number of releasers may run at once: each entry is put at least
        once, and its row is removed once. An entry that cannot be put is counted, logged, and stays for the next tick.
        If the time is up before all are started, another invocation is signalled to go on. An opening that is due
        within `patience` is waited for.
        """
        gate = place.gate
        state = self._open_when_due(gate, patience)
        done = self._outflow.run(state, place, until, lambda hints: self._announce(hints, state), how)
        # Without any progress a signal would only repeat the failure: the next tick is early enough.
        if done.left and done.put:
            self._announce([done.left], state)
        if done.put:
            self._leave_receipt(gate, state, how, role, done.put)
        return done

    def _go_on(self, job: str, until: float) -> None:
        try:
            self._jobs.go_on(job, until)
        except SluiceError:
            # The signal is used up, and the job's own pointer is due only when its chunks count as silent.
            self._jobs.leave_to_tick(job)
            raise

    def _announce(self, hints: Sequence[Hint], state: GateState) -> None:
        # If no signal can be sent, the next tick goes on.
        with suppress(SignalNotSentError):
            self._signals.send_on(hints, state.epoch)

    def _open_when_due(self, gate: str, patience: timedelta) -> GateState:
        # By the clock of storage, from the reply that holds the gate's state: the clock of the instance may be 10
        # minutes ahead. After retries, its time at the request is not that of the reply either.
        early = timedelta()

        def decide(state: GateState, reply_time: datetime | None) -> GateState:
            nonlocal early
            now = self._clock.of_reply(reply_time)
            early = timedelta() if state.scheduled is None else state.scheduled.at - now
            return open_if_due(state, now)

        changed = self._gates.change_by_time(gate, decide)
        if timedelta() < early <= patience:
            # The clock of the bus, which held the signal back, is ahead of that of storage.
            self._pause(early.total_seconds())
            changed = self._gates.change_by_time(gate, decide)
        if changed.is_opening:
            send_signal(self._signals, gate, changed.after.epoch)
        return changed.after

    def _leave_receipt(self, gate: str, state: GateState, how: SeenBy, role: str, put: int) -> None:
        now = self._clock.now()
        receipt = Receipt(
            gate=gate,
            epoch=state.epoch,
            node=this_node(role),
            how=how,
            seen_at=now,
            lag=max(timedelta(), now - (state.at or now)),
            interval=TICK_INTERVAL,
        )
        self._receipts.write(receipt)
        lag = round(receipt.lag.total_seconds(), 3)
        self._telemetry.add(metrics.RELEASE_LAG, lag, seen_by=how.value)
        tell(events.GATE_RELEASED, gate=gate, epoch=receipt.epoch, put=put, seen_by=how.value, lag_seconds=lag)


#: A name without a blob that holds work for so long needs a person.
HOLDS_UNKNOWN: Final = timedelta(minutes=10)
#: Minutes between two log lines about a gate that holds work.
HOLDING_TOLD_EVERY: Final = 15


class GateTick:
    """Serves every gate that holds an entry or is due. Any number of ticks may run, also side by side."""

    def __init__(  # noqa: PLR0913 - the gates, the work behind them, and who hears of what needs a person
        self,
        gates: Gates,
        work: HeldWork,
        releaser: Releaser,
        pending: PendingTable,
        clock: Clock,
        *,
        needs: TickNeeds,
        list_gates: Callable[[], Sequence[str]],
    ) -> None:
        """Take the parts. `list_gates` returns the names that have a blob, by one request."""
        self._gates, self._work, self._releaser = gates, work, releaser
        self._pending, self._clock = pending, clock
        self._needs, self._list_gates = needs, list_gates

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
        waiting = {gate: since for gate, since in self._work.waiting() if is_name(gate)}
        names = sorted({*due, *waiting})
        problems: list[str] = []
        unreadable: dict[str, str] = {}
        done = {
            gate: self._try_serve(partial(self._serve, gate, due[gate], now, until), gate, problems, unreadable)
            for gate in names
        }
        self._needs.judge_all(NeedKind.GATE_UNREADABLE, unreadable)
        silent = {gate: since for gate, since in waiting.items() if now - since >= HOLDS_UNKNOWN}
        states = {gate: done[gate].state for gate in silent}
        self._judge_unknown({gate: silent[gate] for gate, state in states.items() if state and state.has_no_blob})
        if now.minute % HOLDING_TOLD_EVERY == 0:
            _log_holding({gate: now - since for gate, since in waiting.items() if not done[gate].put})
        if problems:
            raise DispatchIncompleteError(f"held work stays for the next tick: {'; '.join(problems)}")
        return done

    def _judge_unknown(self, holding: Mapping[str, datetime]) -> None:
        """Note the names without a blob that hold work: perhaps a submission misspells its gate."""
        known = {gate: self._needs.find(NeedKind.GATE_HOLDS, gate) for gate in holding}
        names = [] if all(known.values()) else self._list_gates()
        found = {}
        for gate, since in holding.items():
            need, meant = known[gate], next(iter(get_close_matches(gate, names, 1)), None)
            said = f"it holds work since {since:%Y-%m-%d %H:%M} UTC and has no blob: it was never opened or closed"
            found[gate] = need.found if need else f"{said}{f'. Did you mean {meant}?' if meant else ''}"
        self._needs.judge_all(NeedKind.GATE_HOLDS, found, is_grave=False)

    def _try_serve(
        self, serve: Callable[[], Dispatched], gate: str, problems: list[str], unreadable: dict[str, str]
    ) -> Dispatched:
        try:
            done = serve()
        except NewerVersionError as error:
            # Its work stays, for the tick of a newer instance.
            tell(events.NEWER_VERSION, found=str(error))
            return Dispatched()
        except Exception as error:  # noqa: BLE001 - one broken gate must not stop the service of the others
            if isinstance(error, GateCorruptError):
                unreadable[gate] = str(error)
            tell(events.GATE_UNSERVED, gate=gate, error=describe_error(error), at=place(error))
            problems.append(f"gate {gate!r}: {describe_error(error)}")
            return Dispatched()
        if done.failed:
            problems.append(f"gate {gate!r}: {done.failed} of {done.put + done.failed} could not be put")
        return done

    def _serve(self, gate: str, pointers: list[Pointer], now: datetime, until: float) -> Dispatched:
        done = self._releaser.release(Hint(gate), SeenBy.POLL, "tick", until)
        if pointers and done.is_whole and done.state:
            # An opening for once needs no pointer of its own: the one that led here stays until the gate is closed.
            epoch = done.state.epoch
            self._gates.change(gate, lambda found: close_after_once(found, epoch, now))
        for pointer in pointers:
            self._drop_if_stale(gate, pointer)
        return done

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
