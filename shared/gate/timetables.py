"""Timetables: gates that open again and again. One blob has all of them, and each is only planned one opening ahead.

The openings themselves are those of gates: an instance that knows no timetables opens them all the same.

The follower's decision is a function of the timetable, of its gate and of the time. So it can be repeated.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from functools import cached_property
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from shared.azure import OptimisticStore
from shared.clock import LOST_RACES
from shared.cron import CronLine, describe, is_doubled, is_skipped, read_line
from shared.errors import GateCorruptError, ScheduleRefusedError, StorageUnavailableError
from shared.gate.state import FURTHEST, TIMETABLE, ChangeKind, GateState, Opening, is_name, is_of_timetable
from shared.versions import decode_document

#: The blob, in the container `settings`.
TIMETABLES: Final = "timetables"
#: Gates with a timetable.
MOST: Final = 100
#: A tick plans the next opening after the one before, and the clocks of instances differ by some minutes.
LEAST_APART: Final = timedelta(minutes=15)
#: The changes of the clock that a person is shown.
_AHEAD: Final = timedelta(days=370)
#: Names in a database of zones that mean another zone on each machine.
_OF_MACHINE: Final = frozenset({"localtime", "posixrules", "Factory"})


class TimetableRow(Struct, frozen=True, kw_only=True):
    """The timetable of one gate, in its stored form."""

    line: str
    zone: str
    #: The time from an opening to its last chunk, for which instances are warmed. None: none are.
    minutes: float | None
    by: str
    why: str
    set_at: datetime
    #: Of its writer: identifies its write after a lost reply.
    nonce: str = ""


class _Document(Struct, kw_only=True):
    v: int = 1
    nonce: str = ""
    gates: dict[str, TimetableRow] = {}


class Timetables:
    """The timetables of one installation."""

    def __init__(self, store: OptimisticStore) -> None:
        self._store = store

    def read(self) -> Mapping[str, TimetableRow]:
        """Return each gate's timetable. Makes one request."""
        return self._read()[0].gates

    def put(self, gate: str, row: TimetableRow | None, prepare: Callable[[], object]) -> bool:
        """Give a gate this timetable, or none. Return False if it is so already.

        `prepare` runs between the read and the write of every attempt, as that of `Gates.change`.
        """
        nonce, is_changed = secrets.token_hex(8), False

        def attempt(_number: int) -> bool:
            nonlocal is_changed
            document, etag = self._read()
            found = document.gates.get(gate)
            if found is not None and found.nonce == nonce:
                # Written by an attempt whose reply was lost.
                return True
            if found == row or (found is not None and row is not None and _is_same(found, row)):
                return True
            others = {name: one for name, one in document.gates.items() if name != gate}
            if row is not None and len(others) >= MOST:
                raise ScheduleRefusedError(
                    f"{MOST} gates have a timetable, and there is room for no more: end one by --every off"
                )
            mine = {} if row is None else {gate: replace(row, nonce=nonce)}
            prepare()
            is_changed = True
            return self._try_write({**others, **mine}, etag)

        LOST_RACES.until_done(attempt, f"change the timetable of gate {gate!r}")
        return is_changed

    def fence(self, gate: str) -> bool:
        """Let any writer who read the blob before this fail. Return False if the gate has a timetable after all."""
        has_row = False

        def attempt(_number: int) -> bool:
            nonlocal has_row
            document, etag = self._read()
            has_row = gate in document.gates
            return has_row or self._try_write(document.gates, etag)

        LOST_RACES.until_done(attempt, f"look for a timetable of gate {gate!r}")
        return not has_row

    def _read(self) -> tuple[_Document, str | None]:
        found = self._store.read()
        return (_Document(), None) if found is None else (_decode(found.value), found.etag)

    def _try_write(self, gates: Mapping[str, TimetableRow], etag: str | None) -> bool:
        document = _Document(nonce=secrets.token_hex(8), gates=dict(sorted(gates.items())))
        try:
            return self._store.try_write(msgspec.json.encode(document), etag) is not None
        except StorageUnavailableError:
            # It may have taken effect: the next attempt reads it back.
            return False


def _is_same(one: TimetableRow, other: TimetableRow) -> bool:
    return replace(one, nonce="", set_at=other.set_at) == replace(other, nonce="")


def _decode(content: bytes) -> _Document:
    try:
        document: _Document = decode_document(content, _Document, "timetables", f"settings/{TIMETABLES}")
    except (msgspec.DecodeError, RecursionError) as error:
        raise GateCorruptError(
            f"the blob settings/{TIMETABLES} has no timetables ({error}): restore an earlier version of it, or delete it "
            "and set them again"
        ) from error
    document.gates = {name: row for name, row in document.gates.items() if is_name(name)}
    return document


def read_zone(name: str) -> ZoneInfo:
    """Return the zone of this name, or raise ScheduleRefusedError with names that are near."""
    try:
        if name not in _OF_MACHINE:
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    known = sorted(available_timezones() - _OF_MACHINE)
    last = name.rpartition("/")[2].replace(" ", "_").lower()
    near = [one for one in known if last and one.rpartition("/")[2].lower() == last][:3]
    near += [one for one in get_close_matches(name, known, n=3) if one not in near]
    hint = f"did you mean {', '.join(near[:3])}?" if near else "write it as in Europe/Berlin, or UTC"
    raise ScheduleRefusedError(f"there is no time zone {name!r}: {hint}")


@dataclass(frozen=True)
class Timetable:
    """A timetable that was read and checked."""

    row: TimetableRow
    line: CronLine
    zone: ZoneInfo

    @classmethod
    def of(cls, row: TimetableRow, now: datetime) -> "Timetable":
        """Check a row, or raise ScheduleRefusedError."""
        zone = read_zone(row.zone)
        return cls(row, read_line(row.line, now.astimezone(zone).date(), LEAST_APART, FURTHEST), zone)

    def next_after(self, moment: datetime) -> datetime:
        """Return the first opening later than this moment."""
        return self.line.next_after(moment, self.zone)

    def opening(self, at: datetime) -> Opening:
        """Return the opening that is planned for this moment."""
        return Opening(at=at, by=self.by, why=self.row.why, once=True)

    @property
    def by(self) -> str:
        """By whom its openings are."""
        return f"{TIMETABLE}{self.row.by}"

    @cached_property
    def words(self) -> str:
        """The line in words, with the zone."""
        return f"{describe(self.line)}, {self.row.zone}"

    def changes_of_clock(self, now: datetime) -> list[str]:
        """Return the days ahead on which the clock skips or repeats one of its times."""
        if self.line.is_hourly:
            return []
        first = now.astimezone(self.zone).date()
        days = (first + timedelta(days=number) for number in range(_AHEAD.days))
        return [day.isoformat() for day in days if self.line.has_day(day) and self._is_odd(day)]

    def _is_odd(self, day: date) -> bool:
        local = [datetime.combine(day, at, self.zone) for at in self.line.times]
        return any(is_doubled(one) or is_skipped(one) for one in local)


def describe_timetable(row: TimetableRow, now: datetime) -> str:
    """Return a stored timetable in words, or its text with the fault by which it plans nothing."""
    try:
        return Timetable.of(row, now).words
    except ScheduleRefusedError as error:
        return f"{row.line}, {row.zone} (no opening is planned: {error})"


class NextStep(NamedTuple):
    """The next moment of a timetable. A follower plans an opening then, or only comes back."""

    at: datetime
    plans: bool


def decide_step(
    timetable: Timetable, state: GateState, since: datetime, now: datetime, *, is_new: bool
) -> NextStep | None:
    """Decide about the next opening. None: one is due and not opened yet, so the next tick decides.

    `since`: when the pointer that led here was due. `is_new`: the timetable was set then, or its opening was displaced.
    """
    moment, planned = max(since, now), state.scheduled
    if planned is not None and planned.at <= moment:
        return None
    if planned is not None and not is_of_timetable(planned):
        # A person's opening stays, and the timetable goes on after it.
        return NextStep(planned.at, plans=False)
    at = timetable.next_after(moment)
    is_taken_back = planned is None and not is_new and _was_planned(state, since)
    return NextStep(at, plans=not is_taken_back and planned != timetable.opening(at))


def _was_planned(state: GateState, since: datetime) -> bool:
    """Check whether a follower of this pointer has planned: then a person took it back before it is followed again."""
    return any(
        line.what is ChangeKind.SCHEDULE and line.by.startswith(TIMETABLE) and line.at >= since
        for line in state.changes
    )


def count_skipped(timetable: Timetable, since: datetime, now: datetime) -> int:
    """Count the openings that came while no tick looked, up to a hundred. They are one with the opening before."""
    number = 0
    while number < MOST and (since := timetable.next_after(since)) <= now:
        number += 1
    return number
