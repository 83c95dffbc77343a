"""A process that ends at any of its storage requests, or loses any request or reply, leaves what the next tick completes.

Every scenario is run once to count its requests, then once for each request and each mode. After the fault the rest of
the world goes on: people repeat what failed, redelivery repeats what a keeper could not finish, the tick runs.
"""

from contextlib import suppress
from datetime import timedelta
from itertools import product

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobLeaseClient

from shared.azure.connections import Connections
from shared.errors import SluiceError
from shared.gate.state import Reading
from shared.signals import Hint
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import UNTOLD, KilledError, Plan
from tests.gate.conftest import House, RecordedSignals, bodies
from tests.gate.timetabling import pointers, row, tick, timetable


class World:
    """One gate with work behind it, and a process of it that may break."""

    def __init__(self, house, faulty, gate, queue, clock):
        self.house, self.faulty, self.gate, self.queue, self.clock = house, faulty, gate, queue, clock

    def hold(self, house, name):
        """Hold one entry."""
        return house.held_work.hold(self.gate, name, self.queue.queue_name, name)

    def taken(self):
        """Return which entries are on the queue, and take them."""
        return set(bodies(self.queue))


def opening(world):
    """Open a gate that holds two entries."""
    for name in ("a", "b"):
        world.hold(world.house, name)
    yield lambda: world.faulty.gate_operator.open(world.gate, by="ann")
    assert world.house.gates.read(world.gate).epoch in {0, 1}
    world.house.gate_operator.open(world.gate, by="ann")
    world.house.tick.run()
    assert world.taken() == {"a", "b"}
    assert world.house.gates.read(world.gate).reading == Reading(1, is_open=True)


def opening_once(world):
    """Open for once: the gate ends closed, and nothing points to it any more."""
    world.hold(world.house, "a")
    yield lambda: world.faulty.gate_operator.open(world.gate, by="ann", once=True)
    world.house.tick.run()
    if world.house.gates.read(world.gate).epoch == 0:
        assert world.taken() == set()
        world.house.gate_operator.open(world.gate, by="ann", once=True)
        world.house.tick.run()
    assert world.taken() == {"a"}
    assert world.house.gates.read(world.gate).reading == Reading(1, is_open=False)


def scheduling(world):
    """Plan an opening: it happens at its time or, if the plan was not made, when it is made anew."""
    world.hold(world.house, "a")
    at = world.clock.now() + timedelta(hours=1)
    yield lambda: world.faulty.gate_operator.schedule(world.gate, at, by="ann")
    world.house.tick.run()
    assert world.taken() == set()
    world.house.gate_operator.schedule(world.gate, at, by="ann")
    world.clock.advance(hours=1)
    world.house.tick.run()
    assert world.taken() == {"a"}
    assert world.house.gates.read(world.gate).reading == Reading(1, is_open=True)


def closing(world):
    """Close an open gate with a plan: afterwards it is closed, whatever is held waits, the plan is gone."""
    world.house.gate_operator.open(world.gate, by="ann")
    world.house.gate_operator.schedule(world.gate, world.clock.now() + timedelta(hours=1), by="ann")
    yield lambda: world.faulty.gate_operator.close(world.gate, by="bob")
    world.house.gate_operator.close(world.gate, by="bob")
    world.hold(world.house, "a")
    world.clock.advance(hours=2)
    world.house.tick.run()
    assert world.taken() == set()
    assert world.house.gates.read(world.gate).reading == Reading(1, is_open=False)


def holding(world):
    """Hold work and open afterwards: redelivery holds again, nothing is dispatched early, nothing lost."""
    yield lambda: world.hold(world.faulty, "a")
    world.house.tick.run()
    assert world.taken() == set()
    world.hold(world.house, "a")
    world.house.gate_operator.open(world.gate, by="ann")
    world.house.tick.run()
    assert world.taken() == {"a"}


def holding_in_the_moment_of_opening(world):
    """Hold while a pulse passes: once the row is there, keeper or tick serves it, without any redelivery."""
    insert = world.faulty.held.insert

    def pulse_first(entry):
        world.house.gate_operator.open(world.gate, by="ann")
        world.house.gate_operator.close(world.gate, by="ann")
        return insert(entry)

    def hold():
        world.faulty.held.insert = pulse_first
        world.hold(world.faulty, "a")

    yield hold
    has_row = world.gate in world.house.held.summaries()
    on_queue = world.taken()
    world.house.tick.run()
    assert on_queue | world.taken() == ({"a"} if has_row or on_queue else set())


def dispatching(world):
    """Release three entries: each is put at least once, and a tick leaves no row."""
    for name in ("a", "b", "c"):
        world.hold(world.house, name)
    world.house.gate_operator.open(world.gate, by="ann")
    world.house.gate_operator.close(world.gate, by="ann")
    world.hold(world.house, "next")
    yield lambda: world.faulty.release(world.gate)
    world.house.tick.run()
    assert world.taken() == {"a", "b", "c"}
    assert [entry.id for page in world.house.held.pages(world.gate) for entry in page] == ["next"]


def ticking(world):
    """A tick that opens as planned, dispatches, closes after once and drops its pointer, broken anywhere."""
    world.hold(world.house, "a")
    world.house.gate_operator.schedule(world.gate, world.clock.now() + timedelta(hours=1), by="ann", once=True)
    world.clock.advance(hours=1)
    yield world.faulty.tick.run
    world.house.tick.run()
    assert world.taken() == {"a"}
    assert world.house.gates.read(world.gate).reading == Reading(1, is_open=False)
    assert world.hold(world.house, "tomorrow").value == "held"
    world.house.tick.run()
    assert world.taken() == set()


def releasing_by_slices(world):
    """Share three entries as if they were many: whatever ends in between, the next tick finds the rest."""
    with pytest.MonkeyPatch.context() as patched:
        # Fewer slices than there really are: each of their requests is broken in every mode.
        patched.setattr("shared.gate.held.SLICES", 2)
        patched.setattr("shared.gate.outflow.SLICES", 2)
        patched.setattr("shared.gate.outflow.MOST_ALONE", 1)
        for name in ("a", "b", "c"):
            world.hold(world.house, name)
        world.house.gate_operator.open(world.gate, by="ann")
        yield lambda: world.faulty.release(world.gate)
        end_leases(world)
        world.house.tick.run()
    assert world.taken() == {"a", "b", "c"}
    assert world.gate not in world.house.held.summaries()


def leased(world):
    """Return the names of the leases on the gate's slices."""
    names = world.house.container("gates").list_blob_names(name_starts_with="_slice")
    return [name for name in names if name.endswith(world.gate)]


def end_leases(world):
    """Let the leases of a process that ended run out."""
    for name in leased(world):
        blob = world.house.container("gates").get_blob_client(name)
        with suppress(HttpResponseError):
            BlobLeaseClient(blob).break_lease(lease_break_period=0)


def opening_by_the_planned_signal(world):
    """The signal that the bus held back opens, releases and signals; whatever ends in between, the tick completes it."""
    world.hold(world.house, "a")
    world.house.gate_operator.schedule(world.gate, world.clock.now() + timedelta(hours=1), by="ann", once=True)
    world.clock.advance(hours=1)
    yield lambda: world.faulty.releaser.on_signal(Hint(world.gate))
    world.house.tick.run()
    assert world.taken() == {"a"}
    assert world.house.gates.read(world.gate).reading == Reading(1, is_open=False)


def nights(world):
    """Return the next two openings of the timetable, by a clock that goes on from run to run."""
    first = timetable().next_after(world.clock.now())
    return first, timetable().next_after(first)


def set_timetable(world, house, line="0 2 * * mon-fri"):
    """Give the gate a timetable."""
    return house.build_timetabler(None).set(world.gate, row(line))


def planned(world):
    """Return when the gate opens, None if it does not."""
    found = world.house.gates.read(world.gate).scheduled
    return found and found.at


def until(world, moment):
    """Move the clock, and run a tick."""
    world.clock.advance(seconds=(moment - world.clock.now()).total_seconds())
    tick(world.house)


def setting_a_timetable(world):
    """Set one: the tick has planned its opening, or there is none, and a person sets it again."""
    first, second = nights(world)
    world.hold(world.house, "a")
    yield lambda: set_timetable(world, world.faulty)
    tick(world.house)
    assert planned(world) == (first if world.house.timetables.read() else None)
    set_timetable(world, world.house)
    assert (planned(world), pointers(world.house, world.gate)) == (first, [first])
    until(world, first)
    assert (world.taken(), planned(world)) == ({"a"}, second)
    assert world.house.gates.read(world.gate).reading == Reading(1, is_open=False)


def changing_a_timetable(world):
    """Set another line: afterwards one of the two is in force, with its own opening planned."""
    first, _second = nights(world)
    set_timetable(world, world.house)
    yield lambda: set_timetable(world, world.faulty, "0 3 * * mon-fri")
    tick(world.house)
    later = first + timedelta(hours=1)
    assert planned(world) == {"0 2 * * mon-fri": first, "0 3 * * mon-fri": later}[row_of(world).line]
    set_timetable(world, world.house, "0 3 * * mon-fri")
    assert planned(world) == later
    until(world, first)
    assert (world.house.gates.read(world.gate).epoch, planned(world)) == (0, later)
    until(world, later)
    assert world.house.gates.read(world.gate).epoch == 1


def row_of(world):
    """Return the timetable of the gate as it is stored."""
    return world.house.timetables.read()[world.gate]


def ending_a_timetable(world):
    """End one: afterwards it is there with its opening, or both are gone, and nothing opens once a person has repeated it."""
    first, second = nights(world)
    set_timetable(world, world.house)
    world.hold(world.house, "a")
    yield lambda: world.faulty.build_timetabler(None).end(world.gate, by="bob", why="moved")
    tick(world.house)
    assert planned(world) == (first if world.house.timetables.read() else None)
    world.house.build_timetabler(None).end(world.gate, by="bob", why="moved")
    assert planned(world) is None
    until(world, second)
    assert (world.taken(), pointers(world.house, world.gate)) == (set(), [])


def following_a_timetable(world):
    """A tick that opens and plans the next opening, broken anywhere: one opening a night, and none is left out."""
    first, second = nights(world)
    set_timetable(world, world.house)
    world.hold(world.house, "a")
    world.clock.advance(seconds=(first - world.clock.now()).total_seconds())
    yield lambda: tick(world.faulty)
    tick(world.house)
    assert (world.taken(), planned(world), pointers(world.house, world.gate)) == ({"a"}, second, [second])
    world.hold(world.house, "b")
    until(world, second)
    assert world.taken() == {"b"}
    assert world.house.gates.read(world.gate).reading == Reading(2, is_open=False)


def planning_before_a_timetable(world):
    """A person's opening that comes first: it is planned or not, and the night's opening comes in any case."""
    first, _second = nights(world)
    set_timetable(world, world.house)
    early = world.clock.now() + timedelta(hours=1)
    yield lambda: world.faulty.gate_operator.schedule(world.gate, early, by="bob", once=True)
    tick(world.house)
    assert planned(world) in {early, first}
    world.house.gate_operator.schedule(world.gate, early, by="bob", once=True)
    until(world, early)
    assert (world.house.gates.read(world.gate).epoch, planned(world)) == (1, first)


def opening_beside_a_timetable(world):
    """An opening by hand: the night's opening is planned again, whether it happened or not."""
    first, _second = nights(world)
    set_timetable(world, world.house)
    world.hold(world.house, "a")
    yield lambda: world.faulty.gate_operator.open(world.gate, by="bob", once=True)
    tick(world.house)
    tick(world.house)
    assert (planned(world), pointers(world.house, world.gate)) == (first, [first])
    until(world, first)
    assert world.taken() == {"a"}


SCENARIOS = (
    setting_a_timetable,
    changing_a_timetable,
    ending_a_timetable,
    following_a_timetable,
    planning_before_a_timetable,
    opening_beside_a_timetable,
    opening,
    opening_once,
    scheduling,
    closing,
    holding,
    holding_in_the_moment_of_opening,
    dispatching,
    releasing_by_slices,
    opening_by_the_planned_signal,
    ticking,
)


@pytest.fixture
def run(clock, gate, monkeypatch):
    """A function that runs one scenario under one plan, on an empty storage in memory: Azurite takes much longer."""
    # The pauses before repetitions are of no interest here, only the repetitions.
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0)

    def once(scenario, plan):
        storage = MemoryStorage()
        with (
            storage.connections() as whole,
            Connections(storage.connection_string, transport=lambda: storage.transport(plan)) as broken,
        ):
            house, faulty = (
                House(made, clock=clock, signals=RecordedSignals(), parallel=1) for made in (whole, broken)
            )
            steps = scenario(World(house, faulty, gate, whole.queues.get_queue_client("work-00"), clock))
            act = next(steps)
            with suppress(KilledError, SluiceError):
                act()
            assert not list(steps)
            assert not [pointer for pointer in house.pending.due(clock.now()) if pointer.id == gate]

    return once


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_fault_at_any_storage_request_is_completed_by_the_next_tick(scenario, run, some):
    """Requests of the scenario are broken in every mode, and in none is work lost, stuck or early."""
    whole = Plan()
    run(scenario, whole)
    assert whole.count >= 3
    # To end after one request and to end before the next one leave the same world.
    faults = [(1, "kill_before"), *product(range(1, whole.count + 1), UNTOLD)]
    for at, mode in some(faults):
        plan = Plan.of(at, mode)
        run(scenario, plan)
        assert plan.fired, f"{mode} at request {at} never happened"
