"""A person's acts on gates, audited before the effect and signalled after it.

Reads every gate with the work behind it, by few requests: one lists the blobs, one counts the held entries.

The list has the ETag of each blob. A reader that is kept reads a gate's blob again only after it was changed.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import ActStaleError, GateCorruptError, NewerVersionError, ScheduleRefusedError
from shared.gate import (
    FURTHEST,
    Changed,
    Gates,
    GateState,
    HeldSummary,
    HeldTable,
    Opening,
    Reading,
    after_open,
    check_name,
    close_gate,
    is_name,
    is_of_timetable,
    open_gate,
    schedule,
    timestamp,
)
from shared.operating.audit import ActKey, AuditedAct, AuditTable
from shared.pending import AT_ONCE, GATE_POINTER, TIMETABLE_POINTER, PendingTable, Pointer
from shared.signals import Signals, send_signal

if TYPE_CHECKING:
    from shared.gate import Roll

#: Seconds that an opening waits for a connection to the bus. Without one it opens all the same.
CONNECTS_WITHIN: Final = 5.0


@dataclass(frozen=True, slots=True)
class GateActResult:
    """The result of a command. `unsignalled` says why no signal was sent, and is empty if one was sent or none was needed."""

    before: GateState
    after: GateState
    unsignalled: str = ""

    @property
    def is_changed(self) -> bool:
        """Return whether the command changed the gate."""
        return self.before is not self.after


class Operator:
    """Opens and closes gates for a person or a program."""

    def __init__(
        self,
        gates: Gates,
        pending: PendingTable,
        audit: AuditTable,
        signals: Signals,
        *,
        clock: Clock,
    ) -> None:
        self._gates, self._pending, self._audit = gates, pending, audit
        self._signals, self._clock = signals, clock

    def open(  # noqa: PLR0913 - each is a part of the command
        self,
        gate: str,
        *,
        by: str,
        why: str = "",
        once: bool = False,
        seed: str = "",
        forecast: Mapping[str, str] | None = None,
        seen: Reading | None = None,
        named: ActKey | None = None,
    ) -> GateActResult:
        """Open the gate now. `once`: it closes again after the held work of this epoch. `seed`: its orders are drawn by it.

        `forecast`: that of it, which the audit keeps. `seen`: only if the gate is as the person saw it, else raise ActStaleError. `named`: see AuditTable.record.
        """
        # Before the opening, so that its signal does not wait for a connection.
        self._signals.connect(CONNECTS_WITHIN)
        now = self._clock.now()
        opening = Opening(at=now, by=by, why=why, once=once, seed=seed)
        details = ({"once": "yes"} if once else {}) | ({"seed_sha256": hash_seed(seed)} if seed else {})
        details |= forecast or {}
        with self._audit.record(AuditedAct(by, "gate open", check_name(gate), why, details), named) as command:
            displaced: Opening | None = None

            def decide(state: GateState) -> GateState:
                nonlocal displaced
                displaced = _check_seen(gate, state, seen).scheduled
                return open_gate(state, opening, now)

            def prepare(after: GateState) -> None:
                point_to_once(self._pending, gate, after)
                if is_of_timetable(displaced):
                    # The timetable plans its opening again.
                    self._pending.add(Pointer(TIMETABLE_POINTER, now, gate, note="displaced"))

            changed = self._gates.change(gate, decide, prepare)
            command.result = _result(changed)
        return GateActResult(*changed, unsignalled=self._signal(gate, changed))

    def schedule(  # noqa: PLR0913 - each is a part of the command
        self,
        gate: str,
        at: datetime,
        *,
        by: str,
        why: str = "",
        once: bool = False,
        prepare: Callable[[Opening, int], object] | None = None,
        forecast: Mapping[str, str] | None = None,
        seen: Reading | None = None,
        named: ActKey | None = None,
    ) -> GateActResult:
        """Schedule an opening at that time, in whole seconds. The bus holds its signal back until then.

        It may come before the next one of a timetable, which goes on after it, and not after that one.

        `prepare`: gets the opening and the gate's epoch inside the audited act. `forecast`, `seen`, `named`: as of `open`.
        """
        now = self._clock.now()
        opening = Opening(at=at.replace(microsecond=0), by=by, why=why, once=once)
        _check_schedule(gate, opening.at, now)
        details = {"at": timestamp(opening.at) or "", **({"once": "yes"} if once else {}), **(forecast or {})}
        with self._audit.record(AuditedAct(by, "gate open", check_name(gate), why, details), named) as command:
            if prepare:
                # Before the opening: what no opening follows is given up again, an opening without it would be slow.
                prepare(opening, self._gates.read(gate).epoch)
            displaced: Opening | None = None

            def decide(state: GateState) -> GateState:
                nonlocal displaced
                displaced = _check_seen(gate, state, seen).scheduled
                _check_turn(gate, opening, displaced)
                return schedule(state, opening, now)

            def point(_after: GateState) -> None:
                self._pending.add(Pointer(GATE_POINTER, opening.at, gate))
                if is_of_timetable(opening) or is_of_timetable(displaced):
                    self._pending.add(Pointer(TIMETABLE_POINTER, opening.at, gate))

            changed = self._gates.change(gate, decide, point)
            command.result = _result(changed)
        if changed.after.scheduled is None or changed.before is changed.after:
            return GateActResult(*changed)
        epoch = after_open(changed.after.reading).epoch
        return GateActResult(*changed, unsignalled=send_signal(self._signals, gate, epoch, opening.at))

    def close(
        self, gate: str, *, by: str, why: str = "", seen: Reading | None = None, named: ActKey | None = None
    ) -> GateActResult:
        """Close the gate and cancel its scheduled opening. Dispatched work goes on. `seen`, `named`: as of `open`."""
        now = self._clock.now()
        with self._audit.record(AuditedAct(by, "gate close", check_name(gate), why), named) as command:
            changed = self._gates.change(gate, lambda state: close_gate(_check_seen(gate, state, seen), by, why, now))
            command.result = _result(changed)
        return GateActResult(*changed)

    def _signal(self, gate: str, changed: Changed) -> str:
        return send_signal(self._signals, gate, changed.after.epoch) if changed.is_opening else ""


def hash_seed(seed: str) -> str:
    """Return the SHA-256 of a random seed, which is published before its lottery."""
    return hashlib.sha256(seed.encode()).hexdigest()


def note_roll(audit: AuditTable, state: GateState, roll: "Roll") -> None:
    """Record the roll of an opening in the audit, beside the act that made it possible."""
    found = f"{len(roll.places)} orders by {roll.order}, sha256 {roll.sha256}"
    act = AuditedAct(state.opened_by, "gate roll", roll.gate, state.why, {"epoch": str(roll.epoch)}, found)
    audit.note(act, ActKey(state.at or AT_ONCE, f"{roll.gate}-{roll.epoch}"))


def _check_seen(gate: str, state: GateState, seen: Reading | None) -> GateState:
    """Return the state if it is the one that the person saw. Inside of the conditional write, so there is no race."""
    if seen is not None and state.reading != seen:
        raise ActStaleError(
            f"gate {gate!r} is {'open' if state.is_open else 'closed'} at epoch {state.epoch} now, and you saw it "
            f"{'open' if seen.is_open else 'closed'} at epoch {seen.epoch}: nothing was done"
        )
    return state


def point_to_once(pending: PendingTable, gate: str, after: GateState) -> None:
    """Write the pointer by which the tick closes the gate, before it opens once."""
    if after.is_open and after.once:
        pending.add(Pointer(GATE_POINTER, AT_ONCE, gate))


def _check_schedule(gate: str, at: datetime, now: datetime) -> None:
    if at <= now:
        raise ScheduleRefusedError(
            f"cannot open gate {gate!r} at {timestamp(at)}: that is in the past, now is {timestamp(now)}; open it now instead"
        )
    if at - now > FURTHEST:
        raise ScheduleRefusedError(
            f"cannot open gate {gate!r} at {timestamp(at)}: that is more than {FURTHEST.days} days ahead; check the year"
        )


def _check_turn(gate: str, opening: Opening, planned: Opening | None) -> None:
    """Refuse a person's opening that would take the place of an earlier one of a timetable, which would be lost."""
    if planned is None or is_of_timetable(opening) or not is_of_timetable(planned) or opening.at <= planned.at:
        return
    raise ScheduleRefusedError(
        f"cannot open gate {gate!r} at {timestamp(opening.at)}: its timetable opens it before that, at "
        f"{timestamp(planned.at)}; choose an earlier time, close the gate to cancel that opening, or end the timetable "
        "(--every off)"
    )


def _result(changed: Changed) -> str:
    if changed.before is changed.after:
        return f"nothing to do: epoch {changed.after.epoch}, {'open' if changed.after.is_open else 'closed'}"
    state = "open" if changed.after.is_open else "closed"
    planned = f", opens at {timestamp(changed.after.scheduled.at)}" if changed.after.scheduled else ""
    return f"done: epoch {changed.after.epoch}, {state}{planned}"


def describe_gate(state: GateState) -> str:
    """Return the state of a gate in words."""
    if not state.is_open:
        return "closed" if state.epoch else "closed, never opened"
    return "open, once" if state.once else "open"


def find_opener(acts: Iterable[AuditedAct], state: GateState) -> AuditedAct | None:
    """Return the act that opened the gate last, or planned that opening, of acts that come the newest first."""
    opened = f"done: epoch {state.epoch}, open"
    # Whole seconds, as plans have them: so texts compare as the moments do.
    until = timestamp(state.at and state.at.replace(microsecond=0)) or ""
    for act in acts:
        is_plan = act.result.startswith("done:") and "at" in act.details and act.details["at"] <= until
        if act.result.startswith(opened) or is_plan:
            return act
    return None


_NOTHING: Final = HeldSummary(0, None)


@dataclass(frozen=True, slots=True)
class Overview:
    """One gate and the work that it holds."""

    gate: str
    state: GateState
    held: HeldSummary
    #: The fault of its blob, or empty. A gate with a fault counts as closed; its state here is that of a new gate.
    problem: str = ""

    @property
    def holds_in_silence(self) -> bool:
        """Return whether it holds work and has no blob: perhaps a submission misspells the name of its gate."""
        return bool(self.held.count) and self.state.has_no_blob and not self.problem


class GateReader:
    """Reads all gates. It remembers the blobs that it has read."""

    def __init__(self, container: ContainerClient, gates: Gates, held: HeldTable) -> None:
        self._container, self._gates, self._held = container, gates, held
        self._known: dict[str, tuple[str, Overview]] = {}

    def list_names(self) -> list[str]:
        """Return the names of the gates that have a blob. One request."""
        return sorted(self._list())

    def _list(self) -> dict[str, str]:
        with expecting_an_answer("list the gates"):
            return {str(blob.name): str(blob.etag) for blob in self._container.list_blobs() if is_name(str(blob.name))}

    def read(self) -> list[Overview]:
        """Return every gate that has a blob or holds work, by name."""
        # The ETag is that of the list. A change between the list and the read is found by the next list.
        etags = self._list()
        holding = {gate: summary for gate, summary in self._held.summaries().items() if is_name(gate)}
        return [
            replace(self._observe(name, etags.get(name, "")), held=holding.get(name, _NOTHING))
            for name in sorted({*etags, *holding})
        ]

    def _observe(self, name: str, etag: str) -> Overview:
        known = self._known.get(name)
        if known is None or known[0] != etag:
            known = self._known[name] = (etag, self._read_gate(name) if etag else Overview(name, GateState(), _NOTHING))
        return known[1]

    def _read_gate(self, name: str) -> Overview:
        try:
            return Overview(name, self._gates.read(name), _NOTHING)
        except (GateCorruptError, NewerVersionError) as error:
            # One broken gate must not hide the others.
            return Overview(name, GateState(), _NOTHING, str(error))
