"""A person's acts on timetables, and the follower that plans the next opening of one.

Every act is one pointer, one write of the blob, and the follower. A process that ends in between leaves the pointer, by
which the next tick does the rest:

1. The pointer, due now, before the blob. A follower who finds nothing to do removes it.
2. The blob, by a conditional write.
3. The opening, by `Operator.schedule`, which writes the pointer to the one after it first.
4. The pointer that led here goes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from shared.clock import Clock
from shared.gate import (
    Gates,
    GateState,
    Opening,
    Timetable,
    TimetableRow,
    Timetables,
    check_name,
    count_skipped,
    decide_step,
    end_timetable,
)
from shared.operating.audit import AuditedAct, AuditTable
from shared.operating.gate_acts import GateActResult, Operator
from shared.pending import TIMETABLE_POINTER, PendingTable, Pointer
from shared.telemetry import events, tell

#: Builds the call that prepares the instances of an opening. None: none are warmed.
WarmUp: TypeAlias = Callable[[str, TimetableRow], Callable[[Opening, int], object] | None]


@dataclass(frozen=True, slots=True)
class TimetableResult:
    """The result of an act on a timetable. `timetable`: None if it is off."""

    timetable: Timetable | None
    is_changed: bool
    after: GateState
    #: As of GateActResult.
    unsignalled: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetabler:
    """Sets and ends timetables for a person, and plans their openings."""

    timetables: Timetables
    gates: Gates
    operator: Operator
    pending: PendingTable
    audit: AuditTable
    warm: WarmUp
    #: The forecast of opening a gate at a time, for the audit.
    foretell: Callable[[str, datetime], Mapping[str, str]]
    clock: Clock

    def set(self, gate: str, row: TimetableRow) -> TimetableResult:
        """Give a gate a timetable, in place of the one that it has, and plan its first opening.

        Raise ScheduleRefusedError if its line or zone makes no sense.
        """
        timetable = Timetable.of(row, self.clock.now())
        details = {
            "every": row.line,
            "zone": row.zone,
            "minutes": "cold" if row.minutes is None else f"{row.minutes:g}",
        }
        return self._put(gate, timetable, AuditedAct(row.by, "gate timetable", check_name(gate), row.why, details))

    def end(self, gate: str, *, by: str, why: str) -> TimetableResult:
        """End the timetable of a gate, and cancel the opening that it planned."""
        return self._put(gate, None, AuditedAct(by, "gate timetable", check_name(gate), why, {"every": "off"}))

    def _put(self, gate: str, timetable: Timetable | None, act: AuditedAct) -> TimetableResult:
        pointer = Pointer(TIMETABLE_POINTER, self.clock.now(), gate, note="set")
        written = pointer

        def point() -> None:
            nonlocal written
            written = self.pending.add(pointer)

        with self.audit.record(act) as command:
            is_changed = self.timetables.put(gate, timetable.row if timetable else None, point)
            command.result = "done" if is_changed else "nothing to do: it is so already"
        outcome = self.follow(written) if is_changed else None
        after = outcome.after if outcome else self.gates.read(gate)
        return TimetableResult(timetable, is_changed, after, outcome.unsignalled if outcome else "")

    def follow(self, pointer: Pointer) -> GateActResult | None:
        """Plan the next opening of a gate's timetable. Return the gate before and after, if it was changed.

        Repeated, or done twice at once: the same opening, so there is nothing to do.
        """
        gate, now = pointer.id, self.clock.now()
        row = self.timetables.read().get(gate)
        if row is None:
            return self._forget(pointer)
        timetable, state = Timetable.of(row, now), self.gates.read(gate)
        step = decide_step(timetable, state, pointer.due, now, is_new=bool(pointer.note))
        if step is None:
            return None
        outcome = None
        if step.plans:
            opening = timetable.opening(step.at)
            prepare = self.warm(gate, row)
            outcome = self.operator.schedule(
                gate,
                opening.at,
                by=opening.by,
                why=opening.why,
                once=True,
                prepare=prepare,
                forecast=self.foretell(gate, opening.at),
            )
            if outcome.after.scheduled != opening or self.timetables.read().get(gate) != row:
                # A person was faster, with an opening or with another timetable. The next tick decides about that.
                return outcome
        if outcome is None:
            # Before the old one goes. `schedule` has written it otherwise.
            self.pending.add(Pointer(TIMETABLE_POINTER, step.at, gate))
        if not pointer.note and (skipped := count_skipped(timetable, pointer.due, now)):
            tell(events.TIMETABLE_SKIPPED, gate=gate, skipped=skipped)
        self.pending.remove(pointer)
        return outcome

    def _forget(self, pointer: Pointer) -> GateActResult:
        """Cancel the opening that was planned by a timetable which is off, and remove the pointer."""
        now = self.clock.now()
        changed = self.gates.change(pointer.id, lambda state: end_timetable(state, now))
        # A writer may be between its pointer and its blob. It read the blob before this, so its write fails.
        if self.timetables.fence(pointer.id):
            self.pending.remove(pointer)
        return GateActResult(*changed)
