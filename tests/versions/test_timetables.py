"""A timetable on a storage where an instance of the last release ticks as well."""

from datetime import timedelta

from shared.gate import TimetableRow
from shared.pending import TIMETABLE_POINTER
from tests.faults.world import GATE, NOON
from tests.versions.driver import Driver
from tests.versions.loading import find_today
from tests.versions.mixture import Mixture

QUARTER = timedelta(minutes=15)


def test_the_release_opens_what_is_planned_and_leaves_the_pointer(release):
    """It knows neither the blob nor the pointer. The next opening is planned when an instance of today ticks."""
    mixture = Mixture({"release": release, "today": (find_today, Driver)}, 1)
    before, today = (mixture._process(name, None) for name in ("release", "today"))
    row = TimetableRow(line="*/15 * * * *", zone="Europe/Berlin", minutes=None, by="ann", why="", set_at=NOON)
    stores = today._stores
    stores.build_timetabler(None).set(GATE, row)
    mixture._pass_time(QUARTER.total_seconds())
    before.tick()
    before.tick()
    state = stores.gates.read(GATE)
    assert (state.epoch, state.is_open, state.scheduled) == (1, False, None)
    found = stores.pending.due(mixture.clock.now())
    assert [pointer.due for pointer in found if pointer.kind == TIMETABLE_POINTER] == [NOON + QUARTER]
    today.tick()
    assert stores.gates.read(GATE).scheduled.at == NOON + 2 * QUARTER
    mixture._end()
