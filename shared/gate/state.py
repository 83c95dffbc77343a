"""One gate as plain data, and the strict reading and the writing of its blob. Makes no request, reads no clock.

The decisions of a gate, as functions of its state. The exhaustive search of the state machine runs these functions.

A gate's epoch only grows, by one with each opening. Work remembers the epoch at which it found the gate closed. So one
comparison decides whether it may start, however often the gate was opened and closed in between.
"""

import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Final, NamedTuple

from shared.errors import GateCorruptError, NameRefusedError
from shared.versions import check_version

#: Gates and held entries follow the rule for job names. A leading underscore marks the blobs of listeners' leases.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
#: The version of the blob's format that this code writes and reads.
VERSION: Final = 1
#: The changes that are kept, so that the blob stays small however long a gate lives.
MOST_CHANGES: Final = 50
#: The upper bound of a schedule: one further ahead is taken for a mistyped year.
FURTHEST: Final = timedelta(days=400)
#: What the `by` of a timetable's opening begins with. Instances that know no timetables keep it as it stands.
TIMETABLE: Final = "timetable of "
#: Held rows store their epoch in a column of 32 bits.
_MOST_EPOCH: Final = 2**31 - 1


class Reading(NamedTuple):
    """A gate's epoch (the number of times it was opened), and whether it is open. All decisions go by these two."""

    epoch: int
    is_open: bool


class ChangeKind(Enum):
    """The kind of a change in a gate's history."""

    OPEN = "open"
    CLOSE = "close"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateChange:
    """One line of a gate's history. After a lost reply, the nonce tells a writer that the write was its own."""

    what: ChangeKind
    epoch: int
    by: str
    why: str
    at: datetime
    nonce: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """A scheduled opening."""

    at: datetime
    by: str
    why: str
    once: bool = False
    #: By which the held orders are drawn. Empty: they start by their arrival. A scheduled opening has none.
    seed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateState:
    """The content of one gate's blob. The default is a gate that was never opened, which has no blob."""

    epoch: int = 0
    is_open: bool = False
    #: By whom, why and when it was last opened. They stay when it is closed again.
    opened_by: str = ""
    why: str = ""
    at: datetime | None = None
    #: The random seed of the last opening. Empty: its orders start by their arrival.
    seed: str = ""
    #: Close it again after the held work of this epoch.
    once: bool = False
    scheduled: Opening | None = None
    nonce: str = ""
    changes: tuple[GateChange, ...] = ()

    @property
    def has_no_blob(self) -> bool:
        """True if no command and no tick has written it."""
        return self == GateState()

    @property
    def reading(self) -> Reading:
        """The two values that decisions go by."""
        return Reading(self.epoch, self.is_open)

    def was_written_with(self, nonce: str) -> bool:
        """Return True if the write with this nonce took effect, even if others have written since."""
        return nonce == self.nonce or any(nonce == change.nonce for change in self.changes)


def check_name(name: str, what: str = "gate") -> str:
    """Return the name, or raise NameRefusedError if it is not valid. `what` is the noun of the message."""
    if _NAME.fullmatch(name):
        return name
    raise NameRefusedError(
        f"{name!r} is not a valid {what} name: use 1 to 100 lower-case letters, digits, dots, hyphens or underscores, "
        "beginning with a letter or a digit"
    )


def is_name(name: str) -> bool:
    """Return True if the name is valid for a gate or a held entry."""
    return _NAME.fullmatch(name) is not None


def encode(state: GateState) -> bytes:
    """Return the blob's content."""
    document = {
        "v": VERSION,
        "epoch": state.epoch,
        "state": "open" if state.is_open else "closed",
        "opened_by": state.opened_by,
        "why": state.why,
        "at": timestamp(state.at),
        "once": state.once,
        "scheduled": _opening_fields(state.scheduled),
        "nonce": state.nonce,
        "changes": [change_fields(change) for change in state.changes],
    } | ({"seed": state.seed} if state.seed else {})
    return json.dumps(document, ensure_ascii=False).encode()


def decode(content: bytes, name: str) -> GateState:
    """Decode a blob. Refuse content that no writer of gates wrote, so that no work starts because of it."""
    try:
        document = json.loads(content)
        check_version("gate", document["v"], f"the blob of gate {name!r}")
        return _state(document)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise GateCorruptError(
            f"the blob of gate {name!r} is not a gate ({type(error).__name__}: {error}): "
            "restore an earlier version of the blob, or delete it to start again with a closed gate"
        ) from error


def _state(document: Any) -> GateState:
    epoch, state = document["epoch"], document["state"]
    if document["v"] != VERSION:
        raise ValueError(f"version {document['v']!r}")
    if type(epoch) is not int or not 0 <= epoch <= _MOST_EPOCH or state not in {"open", "closed"}:
        raise ValueError(f"epoch {epoch!r}, state {state!r}")
    scheduled = document["scheduled"]
    decoded = GateState(
        epoch=epoch,
        is_open=state == "open",
        opened_by=str(document["opened_by"]),
        why=str(document["why"]),
        at=_moment(document["at"]) if document["at"] else None,
        seed=str(document.get("seed", "")),
        once=document["once"] is True,
        scheduled=None if scheduled is None else _opening(scheduled),
        nonce=str(document["nonce"]),
        changes=tuple(_change(change) for change in document["changes"]),
    )
    # A lone surrogate can be read but not written: refused here, or no later opening could be written.
    encode(decoded)
    return decoded


def _opening(fields: Any) -> Opening:
    return Opening(at=_moment(fields["at"]), by=str(fields["by"]), why=str(fields["why"]), once=fields["once"] is True)


def _opening_fields(opening: Opening | None) -> dict[str, object] | None:
    if opening is None:
        return None
    return {"at": timestamp(opening.at), "once": opening.once, "by": opening.by, "why": opening.why}


def _change(fields: Any) -> GateChange:
    return GateChange(
        what=ChangeKind(fields["what"]),
        epoch=int(fields["epoch"]),
        by=str(fields["by"]),
        why=str(fields["why"]),
        at=_moment(fields["at"]),
        nonce=str(fields["nonce"]),
    )


def change_fields(change: GateChange) -> dict[str, object]:
    """Return one line of history as its JSON fields."""
    return {
        "what": change.what.value,
        "epoch": change.epoch,
        "by": change.by,
        "why": change.why,
        "at": timestamp(change.at),
        "nonce": change.nonce,
    }


def timestamp(moment: datetime | None) -> str | None:
    """Return a moment in the form of every gate document: UTC, with a Z."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.astimezone(UTC)


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
        changed = replace(changed, opened_by=opening.by, why=opening.why, at=now, seed=opening.seed)
    return with_change(changed, line)


def is_of_timetable(opening: Opening | None) -> bool:
    """Return True if a timetable planned this opening, and no person."""
    return opening is not None and opening.by.startswith(TIMETABLE)


def schedule(state: GateState, opening: Opening, now: datetime) -> GateState:
    """Schedule an opening. It replaces an earlier schedule, but that of a timetable never a person's."""
    planned = state.scheduled
    if planned == opening or (planned is not None and is_of_timetable(opening) and not is_of_timetable(planned)):
        return state
    line = GateChange(what=ChangeKind.SCHEDULE, epoch=state.epoch, by=opening.by, why=opening.why, at=now)
    return with_change(replace(state, scheduled=opening), line)


def close_gate(state: GateState, by: str, why: str, now: datetime) -> GateState:
    """Close the gate at a person's command, and cancel its scheduled opening: the last command stands."""
    if state.has_no_blob:
        # Its name is registered: work that names it does not look like a slip.
        return with_change(state, GateChange(what=ChangeKind.CLOSE, epoch=state.epoch, by=by, why=why, at=now))
    if not state.is_open and state.scheduled is None:
        return state
    return replace(_close_if_open(state, by, why, now), scheduled=None)


def end_timetable(state: GateState, now: datetime) -> GateState:
    """Cancel the opening that a timetable planned which is off now. One of a person stays, and the gate as well."""
    if state.scheduled is None or not is_of_timetable(state.scheduled):
        return state
    by, why = state.scheduled.by, "its timetable is off: nothing is planned"
    line = GateChange(what=ChangeKind.SCHEDULE, epoch=state.epoch, by=by, why=why, at=now)
    return with_change(replace(state, scheduled=None), line)


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
