"""Timetables: what a follower decides, and what the gate does over nights, stops of the app and persons' own openings."""

from datetime import timedelta

import msgspec
import pytest

from shared.azure import BlobStore
from shared.errors import GateCorruptError, NewerVersionError, ScheduleRefusedError
from shared.gate.state import GateState, Opening, Reading, schedule
from shared.gate.timetables import MOST, Timetable, count_skipped, decide_step
from shared.pending import TIMETABLE_POINTER, Pointer
from tests.gate.conftest import NOON, bodies
from tests.gate.timetabling import pointers, row, tick, timetable, utc

#: The first openings of a night of working days after the Friday of these tests, and what Berlin calls 02:00.
MONDAY, TUESDAY, WEDNESDAY = (utc(f"2026-11-{day}T01:00") for day in (23, 24, 25))


@pytest.fixture(autouse=True)
def empty(connections):
    """Begin without timetables."""
    connections.blobs.get_blob_client("settings", "timetables").delete_blob() if "timetables" in list(
        connections.blobs.get_container_client("settings").list_blob_names(name_starts_with="timetables")
    ) else None


@pytest.fixture
def timetabler(house):
    """Sets and ends timetables."""
    return house.build_timetabler(None)


def planned(house, gate):
    """Return when a gate opens, and by whom it was planned."""
    found = house.gates.read(gate).scheduled
    return found and (found.at, found.by)


def person(at, by="bob"):
    """Return the state of a gate for which a person planned an opening."""
    return schedule(GateState(), Opening(at=at, by=by, why=""), NOON)


def decide(state, since=NOON, now=NOON, *, is_new=False):
    """Decide about the nightly timetable."""
    return decide_step(timetable(), state, since, now, is_new=is_new)


def test_nothing_is_planned_twice():
    """The same opening is there: the follower only looks again when it comes."""
    assert decide(GateState()) == (MONDAY, True)
    there = schedule(GateState(), timetable().opening(MONDAY), NOON)
    assert decide(there, is_new=True) == (MONDAY, False)


def test_the_opening_of_another_line_is_replaced_whether_it_is_earlier_or_later():
    """A timetable that was changed takes the plan of the one before."""
    for at in (NOON + timedelta(hours=1), TUESDAY):
        there = schedule(GateState(), timetable().opening(at), NOON)
        assert decide(there, is_new=True) == (MONDAY, True)


@pytest.mark.parametrize("at", [NOON + timedelta(hours=1), MONDAY, TUESDAY])
def test_a_persons_opening_stays(at):
    """The timetable goes on after it."""
    assert decide(person(at)) == (at, False)


def test_an_opening_that_is_due_comes_first():
    """The gates' step failed in this tick: the opening must not be replaced, so the next tick decides."""
    assert decide(person(NOON)) is None
    late = schedule(GateState(), timetable().opening(MONDAY), NOON)
    assert decide(late, since=MONDAY, now=MONDAY + timedelta(minutes=1)) is None


def test_an_instance_whose_clock_is_behind_plans_no_opening_twice():
    """By its clock the opening that led here is still to come."""
    assert decide(GateState(), since=MONDAY, now=MONDAY - timedelta(minutes=10)) == (TUESDAY, True)


def test_what_a_person_took_back_is_not_planned_again():
    """A follower ended after its plan, and the plan was cancelled before the next tick. A new timetable does plan."""
    there = schedule(GateState(), timetable().opening(TUESDAY), MONDAY)
    cancelled = GateState(changes=there.changes)
    assert decide(cancelled, since=MONDAY, now=MONDAY) == (TUESDAY, False)
    assert decide(cancelled, since=MONDAY, now=MONDAY, is_new=True) == (TUESDAY, True)
    assert decide(cancelled, since=TUESDAY, now=TUESDAY) == (WEDNESDAY, True)


def test_skipped_openings_are_counted():
    """Those after the one that the pointer led to."""
    counts = [count_skipped(timetable(), MONDAY, now) for now in (MONDAY, TUESDAY, WEDNESDAY + timedelta(hours=1))]
    assert counts == [0, 1, 2]


def test_a_timetable_opens_its_gate_night_after_night(house, timetabler, gate, queue, clock):
    """Each opening is once, starts what is held then, and the next one is planned ahead."""
    done = timetabler.set(gate, row())
    assert (done.is_changed, planned(house, gate)) == (True, (MONDAY, "timetable of ann"))
    house.held_work.hold(gate, "a", queue.queue_name, "a")
    for opens, then in ((MONDAY, TUESDAY), (TUESDAY, WEDNESDAY)):
        clock.advance(seconds=(opens - clock.now()).total_seconds())
        tick(house)
        assert bodies(queue) == ["a"]
        state = house.gates.read(gate)
        assert (state.is_open, state.opened_by, state.why) == (False, "timetable of ann", "night")
        assert planned(house, gate) == (then, "timetable of ann")
        assert pointers(house, gate) == [then]
        house.held_work.hold(gate, "a", queue.queue_name, "a")
    assert house.gates.read(gate).epoch == 2


def test_an_app_that_was_stopped_over_three_openings_opens_once(house, timetabler, gate, queue, clock, events):
    """Late, and the two others are said to be skipped."""
    timetabler.set(gate, row())
    house.held_work.hold(gate, "a", queue.queue_name, "a")
    clock.advance(seconds=(WEDNESDAY + timedelta(hours=5) - clock.now()).total_seconds())
    for _ in range(3):
        tick(house)
    assert bodies(queue) == ["a"]
    assert house.gates.read(gate).reading == Reading(1, is_open=False)
    assert planned(house, gate) == (utc("2026-11-26T01:00"), "timetable of ann")
    assert [event for event in events if event["name"] == "sluice.timetable.skipped"] == [
        {"name": "sluice.timetable.skipped", "gate": gate, "skipped": 2}
    ]
