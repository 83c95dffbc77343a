"""What a person does to a gate: audited before the effect, signalled after it."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from shared.audit import AuditTable, Command
from shared.clock import Clock
from shared.errors import ScheduleRefusedError, SignalNotSentError
from shared.gate.decisions import closed, opened, scheduled
from shared.gate.gates import Changed, Gates
from shared.gate.state import GateState, Opening, checked_name, timestamp
from shared.pending import AT_ONCE, GATE_POINTER, PendingTable, Pointer
from shared.signals import Signals
from shared.telemetry import events
from shared.telemetry.event import tell

#: A plan further ahead is a typing error in the year.
FURTHEST: Final = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did; `unsignalled` says why nobody was told at once, and is empty when they were or need not be."""

    before: GateState
    after: GateState
    unsignalled: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether the command changed anything."""
        return self.before is not self.after


class Operator:
    """Opens and closes gates for a person or a program."""

    def __init__(self, gates: Gates, pending: PendingTable, audit: AuditTable, signals: Signals, clock: Clock) -> None:
        self._gates, self._pending, self._audit = gates, pending, audit
        self._signals, self._clock = signals, clock

    def open(self, gate: str, *, by: str, why: str = "", once: bool = False) -> Outcome:
        """Open the gate now; `once`: it closes again after the held work of this epoch."""
        now = self._clock.now()
        opening = Opening(at=now, by=by, why=why, once=once)
        details = {"once": "yes"} if once else {}
        with self._audit.recorded(Command(by, "gate open", checked_name(gate), why, details)) as command:
            changed = self._gates.change(
                gate, lambda state: opened(state, opening, now), partial(point_to_once, self._pending, gate)
            )
            command.result = _result(changed)
        return Outcome(*changed, unsignalled=self._signal(gate, changed))

    def schedule(self, gate: str, at: datetime, *, by: str, why: str = "", once: bool = False) -> Outcome:
        """Let the tick open the gate at that time, to the second."""
        now = self._clock.now()
        opening = Opening(at=at.replace(microsecond=0), by=by, why=why, once=once)
        _check_schedule(gate, opening.at, now)
        details = {"at": timestamp(opening.at) or "", **({"once": "yes"} if once else {})}
        with self._audit.recorded(Command(by, "gate open", checked_name(gate), why, details)) as command:
            pointer = Pointer(GATE_POINTER, opening.at, gate)
            changed = self._gates.change(
                gate, lambda state: scheduled(state, opening, now), lambda _after: self._pending.add(pointer)
            )
            command.result = _result(changed)
        return Outcome(*changed)

    def close(self, gate: str, *, by: str, why: str = "") -> Outcome:
        """Close the gate and take back what was scheduled; what is dispatched already runs on."""
        now = self._clock.now()
        with self._audit.recorded(Command(by, "gate close", checked_name(gate), why)) as command:
            changed = self._gates.change(gate, lambda state: closed(state, by, why, now))
            command.result = _result(changed)
        return Outcome(*changed)

    def _signal(self, gate: str, changed: Changed) -> str:
        return signal(self._signals, gate, changed.after) if changed.is_opening else ""


def signal(signals: Signals, gate: str, state: GateState) -> str:
    """Tell whoever listens; return why nobody was told, which is no failure: the flag is what counts."""
    try:
        signals.send(gate, state.epoch)
    except SignalNotSentError as error:
        tell(events.SIGNAL_UNSENT, gate=gate, epoch=state.epoch)
        return str(error)
    return ""


def point_to_once(pending: PendingTable, gate: str, after: GateState) -> None:
    """Note, before the gate opens for once, that the tick must close it."""
    if after.is_open and after.once:
        pending.add(Pointer(GATE_POINTER, AT_ONCE, gate))


def _check_schedule(gate: str, at: datetime, now: datetime) -> None:
    if at <= now:
        raise ScheduleRefusedError(
            f"cannot open gate {gate!r} at {timestamp(at)}: that is past (it is {timestamp(now)}); open it now instead"
        )
    if at - now > FURTHEST:
        raise ScheduleRefusedError(
            f"cannot open gate {gate!r} at {timestamp(at)}: that is more than {FURTHEST.days} days ahead; check the year"
        )


def _result(changed: Changed) -> str:
    if changed.before is changed.after:
        return f"nothing to do: epoch {changed.after.epoch}, {'open' if changed.after.is_open else 'closed'}"
    state = "open" if changed.after.is_open else "closed"
    planned = f", opens at {timestamp(changed.after.scheduled.at)}" if changed.after.scheduled else ""
    return f"done: epoch {changed.after.epoch}, {state}{planned}"
