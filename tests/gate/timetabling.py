"""What tests of timetables share: rows, and a tick with the gates and the timetables."""

from datetime import UTC, datetime

from shared.gate.timetables import Timetable, TimetableRow
from shared.pending import TIMETABLE_POINTER
from tests.gate.conftest import NOON

#: A Friday, so the next working day of `NIGHTLY` is a Monday.
NIGHTLY = "0 2 * * mon-fri"


def row(line=NIGHTLY, zone="Europe/Berlin", **fields):
    """Return a timetable's row."""
    return TimetableRow(
        **{"line": line, "zone": zone, "minutes": None, "by": "ann", "why": "night", "set_at": NOON} | fields
    )


def timetable(line=NIGHTLY, zone="Europe/Berlin"):
    """Return a timetable that was checked at noon."""
    return Timetable.of(row(line, zone), NOON)


def utc(text):
    """Return a moment of UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def tick(house):
    """Do what a tick does for gates: open them, release what they hold, then follow the timetables."""
    pointers = list(house.pending.due(house.clock.now()))
    house.tick.run(pointers)
    for pointer in pointers:
        if pointer.kind == TIMETABLE_POINTER:
            house.build_timetabler(None).follow(pointer)


def pointers(house, gate):
    """Return when a timetable is looked at again."""
    found = house.pending.due(utc("2040-01-01"))
    return [pointer.due for pointer in found if (pointer.kind, pointer.id) == (TIMETABLE_POINTER, gate)]
