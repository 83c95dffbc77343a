"""The decisions of a gate, as functions of its state. The exhaustive search of the state machine runs these functions.

A gate's epoch only grows, by one with each opening. Work remembers the epoch at which it found the gate closed. So one
comparison decides whether it may start, however often the gate was opened and closed in between.
"""

from dataclasses import replace
from datetime import datetime

from shared.gate.state import MOST_CHANGES, ChangeKind, GateChange, GateState, Opening, Reading


def after_open(reading: Reading) -> Reading:
    """Return the reading after an opening. Opening an open gate changes nothing."""
    return reading if reading.is_open else Reading(reading.epoch + 1, is_open=True)


def after_close(reading: Reading) -> Reading:
    """Return the reading after a closing. The epoch stays, so that no process waits for it twice."""
    return Reading(reading.epoch, is_open=False)


def must_dispatch(held_epoch: int, later: Reading) -> bool:
    """Return True if work that found the gate closed at `held_epoch` may start.

    The reading must be later than the row: an older reading that says "open" may be from before the closing that the
    row met. The epoch alone is safe with any reading. "Open" alone matters if a gate's blob was deleted and its epochs
    began again at zero: its rows must not wait for epochs that take years to come back.
    """
    return held_epoch < later.epoch or later.is_open


def is_released(reading: Reading, served: int | None) -> bool:
    """Return True if a process that has served this epoch may go on. With None it has served none: "open" is enough.

    A flag without epochs is always at 0, open or not. An open gate never is.
    """
    if served is None:
        return reading.is_open
    return reading.epoch > served or (served == 0 and reading.is_open)


def open_gate(state: GateState, opening: Opening, now: datetime) -> GateState:
    """Open the gate. This opening replaces a scheduled one."""
    if state.is_open and state.once == opening.once and state.scheduled is None:
        return state
    epoch, is_open = after_open(state.reading)
    line = GateChange(what=ChangeKind.OPEN, epoch=epoch, by=opening.by, why=opening.why, at=now)
    changed = replace(state, epoch=epoch, is_open=is_open, once=opening.once, scheduled=None)
    if not state.is_open:
        changed = replace(changed, opened_by=opening.by, why=opening.why, at=now)
    return with_change(changed, line)


def schedule(state: GateState, opening: Opening, now: datetime) -> GateState:
    """Schedule an opening. It replaces an earlier schedule."""
    if state.scheduled == opening:
        return state
    line = GateChange(what=ChangeKind.SCHEDULE, epoch=state.epoch, by=opening.by, why=opening.why, at=now)
    return with_change(replace(state, scheduled=opening), line)


def close_gate(state: GateState, by: str, why: str, now: datetime) -> GateState:
    """Close the gate at a person's command, and cancel its scheduled opening: the last command stands."""
    if not state.is_open and state.scheduled is None:
        return state
    return replace(_close_if_open(state, by, why, now), scheduled=None)


def close_after_once(state: GateState, served: int, now: datetime) -> GateState:
    """Close a gate that was opened once, if its epoch is served. A later epoch and a scheduled opening stay."""
    if not (state.is_open and state.once and state.epoch == served):
        return state
    return _close_if_open(state, state.opened_by, "once: the held work of this epoch is dispatched", now)


def _close_if_open(state: GateState, by: str, why: str, now: datetime) -> GateState:
    epoch, is_open = after_close(state.reading)
    line = GateChange(what=ChangeKind.CLOSE, epoch=epoch, by=by, why=why, at=now)
    return with_change(replace(state, epoch=epoch, is_open=is_open, once=False), line)


def open_if_due(state: GateState, now: datetime) -> GateState:
    """Open the gate as scheduled once the time has come, else return it unchanged."""
    if state.scheduled is None or state.scheduled.at > now:
        return state
    return open_gate(state, state.scheduled, now)


def needs_pointer(state: GateState, due: datetime) -> bool:
    """Return True if the pointer for this time still leads to work for the tick."""
    return (state.is_open and state.once) or (state.scheduled is not None and state.scheduled.at == due)


def with_change(state: GateState, line: GateChange) -> GateState:
    """Add a line of history. The newest is first."""
    return replace(state, changes=(line, *state.changes)[:MOST_CHANGES])


def sign(before: GateState, after: GateState, nonce: str) -> GateState:
    """Add the writer's nonce to the state and to the history line that this write adds."""
    lines = after.changes
    if lines and lines != before.changes:
        lines = (replace(lines[0], nonce=nonce), *lines[1:])
    return replace(after, nonce=nonce, changes=lines)
