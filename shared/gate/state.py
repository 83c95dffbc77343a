"""One gate as plain data: what its blob holds, read strictly, and how it is written. No I/O, no clock."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from shared.errors import GateCorruptError, NameRefusedError

#: Gates and held entries are called like jobs; an underscore in front is for the blobs of the listeners' leases.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
#: The version of the blob's format that this code writes and reads.
VERSION: Final = 1
#: Older changes are forgotten, so that the blob stays small however long a gate lives.
MOST_CHANGES: Final = 50
#: Rows of what is held say their epoch in a column of 32 bits.
_MOST_EPOCH: Final = 2**31 - 1


class Reading(NamedTuple):
    """What decides about a gate: how often it was opened, and whether it is open now."""

    epoch: int
    is_open: bool


class ChangeKind(Enum):
    """What somebody did to a gate."""

    OPEN = "open"
    CLOSE = "close"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateChange:
    """One line of a gate's history; the nonce tells whose write it was after a reply was lost."""

    what: ChangeKind
    epoch: int
    by: str
    why: str
    at: datetime
    nonce: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """An opening that is to come."""

    at: datetime
    by: str
    why: str
    once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GateState:
    """What one gate's blob holds; the default is a gate that nobody ever opened, for which there is no blob."""

    epoch: int = 0
    is_open: bool = False
    #: By whom, why and when it was last opened; they stay when it is closed again.
    opened_by: str = ""
    why: str = ""
    at: datetime | None = None
    #: Close it again after the held work of this epoch.
    once: bool = False
    scheduled: Opening | None = None
    nonce: str = ""
    changes: tuple[GateChange, ...] = ()

    @property
    def reading(self) -> Reading:
        """What decisions need of it."""
        return Reading(self.epoch, self.is_open)

    def was_written_with(self, nonce: str) -> bool:
        """Whether the write with this nonce took effect, even if others have written since."""
        return nonce == self.nonce or any(nonce == change.nonce for change in self.changes)


def check_name(name: str, what: str = "gate") -> str:
    """Return the name, or raise NameRefusedError when it is none."""
    if _NAME.fullmatch(name):
        return name
    raise NameRefusedError(
        f"{name!r} is no name for a {what}: use 1 to 100 lower-case letters, digits, dots, hyphens or underscores, "
        "beginning with a letter or a digit"
    )


def is_name(name: str) -> bool:
    """Whether a gate or a held entry may be called so."""
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
    }
    return json.dumps(document, ensure_ascii=False).encode()


def decode(content: bytes, name: str) -> GateState:
    """Return what the blob says; anything that no writer of gates wrote is refused, so that nothing starts by it."""
    try:
        document = json.loads(content)
        if document["v"] != VERSION:
            raise GateCorruptError(
                f"the blob of gate {name!r} has format {document['v']!r}, this version knows {VERSION}: upgrade Sluice"
            )
        return _state(document)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise GateCorruptError(
            f"the blob of gate {name!r} is not a gate ({type(error).__name__}: {error}): "
            "restore an earlier version of the blob, or delete it to begin anew with a closed gate"
        ) from error


def _state(document: Any) -> GateState:
    epoch, state = document["epoch"], document["state"]
    if type(epoch) is not int or not 0 <= epoch <= _MOST_EPOCH or state not in {"open", "closed"}:
        raise ValueError(f"epoch {epoch!r}, state {state!r}")
    planned = document["scheduled"]
    found = GateState(
        epoch=epoch,
        is_open=state == "open",
        opened_by=str(document["opened_by"]),
        why=str(document["why"]),
        at=_moment(document["at"]) if document["at"] else None,
        once=document["once"] is True,
        scheduled=None if planned is None else _opening(planned),
        nonce=str(document["nonce"]),
        changes=tuple(_change(change) for change in document["changes"]),
    )
    # Half a character can be read and never be written again, and then no opening could be.
    encode(found)
    return found


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
    """Return one line of history as JSON has it."""
    return {
        "what": change.what.value,
        "epoch": change.epoch,
        "by": change.by,
        "why": change.why,
        "at": timestamp(change.at),
        "nonce": change.nonce,
    }


def timestamp(moment: datetime | None) -> str | None:
    """Return a moment as every document of a gate writes it: UTC, with a Z."""
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.astimezone(UTC)
