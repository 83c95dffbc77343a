"""Timetables: what a follower decides, and what the gate does over nights, stops of the app and persons' own openings."""

from contextlib import suppress
from datetime import timedelta

import pytest
from azure.core.exceptions import ResourceNotFoundError

from shared.errors import GateCorruptError, NewerVersionError, ScheduleRefusedError
from shared.gate.state import GateState, Opening, Reading, schedule
from shared.gate.timetables import MOST, Timetable, count_skipped, decide_step
from shared.pending import TIMETABLE_POINTER, Pointer
from shared.scaling import WarmChoice, records_of
from shared.telemetry import events
from tests.gate.conftest import NOON, bodies
from tests.gate.timetabling import pointers, row, tick, timetable, utc
from tests.scaling.resource_manager_server import SITE

#: The first openings of a night of working days after the Friday of these tests, and what Berlin calls 02:00.
MONDAY, TUESDAY, WEDNESDAY = (utc(f"2026-11-{day}T01:00") for day in (23, 24, 25))


@pytest.fixture(autouse=True)
def empty(connections):
    """Begin without timetables, and leave none to other tests."""
    blob = connections.blobs.get_blob_client("settings", "timetables")
    for turn in range(2):
        with suppress(ResourceNotFoundError):
            blob.delete_blob()
        if turn == 0:
            yield


@pytest.fixture
def timetabler(house):
    """What sets and ends timetables."""
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


def test_an_app_that_was_stopped_over_three_openings_opens_once(house, gate, queue, clock, told):
    """Late, and the two others are said to be skipped."""
    house.build_timetabler(None).set(gate, row())
    house.held_work.hold(gate, "a", queue.queue_name, "a")
    clock.advance(seconds=(WEDNESDAY + timedelta(hours=5) - clock.now()).total_seconds())
    for _ in range(3):
        tick(house)
    assert bodies(queue) == ["a"]
    assert house.gates.read(gate).reading == Reading(1, is_open=False)
    assert planned(house, gate) == (utc("2026-11-26T01:00"), "timetable of ann")
    assert told(events.TIMETABLE_SKIPPED) == [{"gate": gate, "skipped": 2}]


def test_another_line_takes_the_place_of_the_plan(house, timetabler, gate):
    """At once, whether its opening is earlier or later. The same line again changes nothing."""
    timetabler.set(gate, row())
    assert timetabler.set(gate, row("0 3 * * mon-fri")).is_changed
    assert planned(house, gate)[0] == MONDAY + timedelta(hours=1)
    assert timetabler.set(gate, row("30 1 * * *", "UTC")).after.scheduled.at == utc("2026-11-21T01:30")
    again = timetabler.set(gate, row("30 1 * * *", "UTC", set_at=NOON + timedelta(days=1)))
    assert (again.is_changed, again.after.scheduled.at) == (False, utc("2026-11-21T01:30"))


def test_off_cancels_the_planned_opening_and_nothing_opens(house, timetabler, gate, queue, clock):
    """Its pointers go when they are due. Repeated, it changes nothing."""
    timetabler.set(gate, row())
    done = timetabler.end(gate, by="bob", why="moved")
    assert (done.is_changed, planned(house, gate), house.timetables.read()) == (True, None, {})
    assert not timetabler.end(gate, by="bob", why="moved").is_changed
    house.held_work.hold(gate, "a", queue.queue_name, "a")
    clock.advance(days=4)
    tick(house)
    tick(house)
    assert (bodies(queue), house.gates.read(gate).epoch, pointers(house, gate)) == ([], 0, [])


def test_off_leaves_a_persons_opening(house, timetabler, gate):
    """It was planned instead of that of the timetable."""
    timetabler.set(gate, row())
    house.gate_operator.schedule(gate, NOON + timedelta(hours=1), by="bob")
    timetabler.end(gate, by="ann", why="")
    assert planned(house, gate) == (NOON + timedelta(hours=1), "bob")


def test_closing_cancels_one_night(house, timetabler, gate, queue, clock):
    """The timetable goes on with the night after it."""
    timetabler.set(gate, row())
    house.held_work.hold(gate, "a", queue.queue_name, "a")
    house.gate_operator.close(gate, by="bob")
    clock.advance(seconds=(MONDAY - clock.now()).total_seconds())
    tick(house)
    assert (bodies(queue), planned(house, gate)) == ([], (TUESDAY, "timetable of ann"))


def test_a_persons_earlier_opening_comes_and_the_timetable_goes_on(house, timetabler, gate, clock):
    """The opening of the night is planned again after it."""
    timetabler.set(gate, row())
    early = NOON + timedelta(hours=3)
    house.gate_operator.schedule(gate, early, by="bob", once=True)
    tick(house)
    assert planned(house, gate) == (early, "bob")
    clock.advance(hours=3)
    tick(house)
    assert (house.gates.read(gate).epoch, planned(house, gate)) == (1, (MONDAY, "timetable of ann"))


def test_a_persons_later_opening_is_refused(house, timetabler, gate):
    """It would take the place of the night's. After a closing it is a choice, and the timetable goes on after it."""
    timetabler.set(gate, row())
    with pytest.raises(ScheduleRefusedError, match="its timetable opens it before that, at 2026-11-23T01:00:00Z"):
        house.gate_operator.schedule(gate, TUESDAY, by="bob")
    assert planned(house, gate) == (MONDAY, "timetable of ann")
    house.gate_operator.close(gate, by="bob")
    house.gate_operator.schedule(gate, TUESDAY, by="bob")
    assert planned(house, gate) == (TUESDAY, "bob")


def test_a_gate_that_is_opened_by_hand_keeps_its_night(house, timetabler, gate):
    """The opening takes back the plan, as ever, and the next tick plans it again."""
    timetabler.set(gate, row())
    house.gate_operator.open(gate, by="bob", once=True)
    assert planned(house, gate) is None
    tick(house)
    assert planned(house, gate) == (MONDAY, "timetable of ann")
    assert pointers(house, gate) == [MONDAY]


def test_two_followers_of_one_pointer_plan_one_opening(house, timetabler, gate):
    """Side by side in two instances, or one after the other."""
    timetabler.set(gate, row())
    pointer = house.pending.add(Pointer(TIMETABLE_POINTER, NOON, gate))
    epochs = [timetabler.follow(pointer) for _ in range(2)]
    assert epochs == [None, None]
    assert len(house.gates.read(gate).changes) == 1


def test_a_follower_that_read_an_older_timetable_leaves_the_rest_to_the_next_tick(house, timetabler, gate, monkeypatch):
    """The timetable ended while it planned: the next tick takes the opening back."""
    timetabler.set(gate, row())
    house.gate_operator.close(gate, by="bob")
    pointer = house.pending.add(Pointer(TIMETABLE_POINTER, NOON, gate, note="displaced"))
    operator, real = timetabler.operator, timetabler.operator.schedule

    def ended_meanwhile(*arguments, **options):
        timetabler.timetables.put(gate, None, lambda: None)
        return real(*arguments, **options)

    monkeypatch.setattr(operator, "schedule", ended_meanwhile)
    timetabler.follow(pointer)
    assert planned(house, gate) == (MONDAY, "timetable of ann")
    tick(house)
    assert (planned(house, gate), pointers(house, gate)) == (None, [MONDAY])


def test_a_persons_opening_of_the_same_moment_is_never_replaced():
    """Inside of the conditional write, so there is no race."""
    there = person(TUESDAY)
    assert schedule(there, timetable().opening(MONDAY), NOON) is there


def test_each_opening_warms_instances_for_its_minutes(house, gate, clock):
    """As one by --at does, also the next one that the tick plans. Cold, it takes them back; where no app is warmed, there are none."""
    choice = WarmChoice(site=SITE, identity="", most=20, endpoint="https://nowhere.invalid")
    warmed = house.build_timetabler(choice)
    warmed.set(gate, row(minutes=15))
    clock.advance(seconds=(MONDAY - clock.now()).total_seconds())
    house.tick.run()
    for pointer in house.pending.due(clock.now()):
        if pointer.kind == TIMETABLE_POINTER:
            warmed.follow(pointer)
    planned_for = {
        one.opens_at: (one.within, one.by)
        for one in records_of(house).read().record.openings
        if one.gate == gate and one.opens_at > MONDAY
    }
    assert planned_for == {TUESDAY: (timedelta(minutes=15), "timetable of ann")}
    warmed.set(gate, row("0 3 * * mon-fri"))
    assert [one for one in records_of(house).read().record.openings if one.opens_at == TUESDAY] == []
    assert house.build_timetabler(None).warm(gate, row(minutes=15)) is None


def test_there_is_room_for_a_hundred(timetabler, gate):
    """The next one is refused before anything is written, and the others may change."""
    for number in range(MOST):
        assert timetabler.timetables.put(f"g{number}", row(), lambda: None)
    with pytest.raises(ScheduleRefusedError, match="100 gates have a timetable"):
        timetabler.set(gate, row())
    assert timetabler.timetables.put("g0", row("0 3 * * *"), lambda: None)
    assert timetabler.timetables.put("g0", None, lambda: None)
    assert timetabler.timetables.put(gate, row(), lambda: None)


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Europe/Berlln", "did you mean Europe/Berlin"),
        ("Berlin", "did you mean Europe/Berlin"),
        ("new york", "did you mean America/New_York"),
        ("localtime", "there is no time zone 'localtime'"),
        ("Mars", "there is no time zone 'Mars'"),
        ("", "write it as in Europe/Berlin, or UTC"),
        ("Europe", "there is no time zone 'Europe'"),
        ("../etc/passwd", "there is no time zone"),
    ],
)
def test_a_zone_that_does_not_exist_is_refused_with_near_ones(zone, hint):
    """Also one that would mean another zone on each machine."""
    with pytest.raises(ScheduleRefusedError, match=hint):
        Timetable.of(row(zone=zone), NOON)


def test_the_days_on_which_the_clock_changes_are_named():
    """Those that skip or repeat a time of the line."""
    assert timetable("0 2 * * *").changes_of_clock(NOON) == ["2027-03-28", "2027-10-31"]
    assert timetable("0 4 * * *").changes_of_clock(NOON) == timetable("0 * * * *").changes_of_clock(NOON) == []
    assert timetable("0 2 * * mon-fri").changes_of_clock(NOON) == []


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"Set", GateCorruptError),
        (b'{"v": 1, "gates": {"g": {"line": 3}}}', GateCorruptError),
        (b'{"v": 2, "gates": []}', NewerVersionError),
    ],
)
def test_a_blob_that_no_timetable_wrote_is_refused(house, connections, content, error):
    """Nothing is planned by it, and a newer one waits for a newer instance."""
    connections.blobs.get_blob_client("settings", "timetables").upload_blob(content)
    with pytest.raises(error, match="settings/timetables"):
        house.timetables.read()
