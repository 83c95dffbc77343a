"""A slice of `make faults` over registration: no fault leaves an order open, a seat leaked or sold twice, a command lost."""

import json

import pytest

from capabilities.registration.entities import PAYMENTS, STARTS_IN_ORDER
from shared.gate import GateState
from shared.gate.rolls import RollPlace, make_roll
from tests.faults import campaign, crash_points, pairs
from tests.faults.journal import Journal
from tests.faults.memory.storage import MemoryStorage
from tests.faults.orders.host import LANE, VIEWS
from tests.faults.orders.invariants import GATE, breaches
from tests.faults.orders.scenarios import ORDER_SCENARIOS, A, run
from tests.faults.orders.world import OrderWorld
from tests.faults.test_crash_points import spread, tallied

#: Hundreds of runs: within a minute alone, within several beside three other workers on a slow machine.
NAMES = [scenario.name for scenario in ORDER_SCENARIOS]
#: Runs on Azurite, single faults in memory, and histories with two faults in memory.
ON_AZURITE, IN_MEMORY, WITH_TWO = 8, 32, 12
CHOSEN = ("place orders, and nobody asks again", "sell seats")
SALE = campaign.BY_NAME["the whole sale"]


@pytest.fixture
def of_orders(in_memory):
    """The requests of the scenarios of registration."""
    return {name: in_memory[name] for name in NAMES}


def test_single_faults_leave_every_order_answered(of_orders, is_usual):
    """Nearly all faults at the request that was recorded. In CI four times as many."""
    tasks = spread(of_orders, IN_MEMORY // (4 if is_usual else 1))
    tallies = tallied(tasks, of_orders)
    missed = [line for tally in tallies for line in tally.missed]
    assert len(missed) <= len(tasks) / 10, missed


@pytest.mark.ci("a campaign of faults")
def test_two_faults_leave_every_order_answered(of_orders):
    """The second fault comes shortly after the first."""
    tallies = tallied(pairs.histories(of_orders, WITH_TWO), of_orders)
    # In the others, the act ended before the second fault.
    assert sum(tally.whole for tally in tallies) >= WITH_TWO / 4


@pytest.mark.ci("a campaign of faults")
def test_real_processes_on_azurite_leave_every_order_answered(crowd):
    """Forked processes end for good, or meet a fault, at requests of real clients to a real storage."""
    sites = campaign.recorded(CHOSEN, crowd)
    tallies = tallied(spread(sites, ON_AZURITE), sites, crowd)
    assert sum(tally.runs for tally in tallies) >= ON_AZURITE / 2


@pytest.fixture
def world(shortcuts):
    """A world in which seats were sold."""
    made = OrderWorld(MemoryStorage(), Journal())
    with made.app() as app:
        SALE.prepare(made, app)
    crash_points._act(SALE, made, crash_points.Plan(note=made.journal.note))
    assert crash_points._recovered(SALE, made) == []
    yield made
    made.close()


def table(world, name):
    """Return the client of a table."""
    return world.observer().tables.get_table_client(name)


def answered_otherwise(world):
    """Answer an order again in another way."""
    world.journal.note("answered", A, 202, '{"number": 7}')


def paid_in_vain(world):
    """Forget a payment."""
    world.journal.note("dropped", "payment", {"id": "p9", "order": A, "outcome": "completed", "amount": "1.00"})


def without_its_view(world):
    """Lose the row of an order."""
    for row in table(world, "readmodela").list_entities():
        if row["RowKey"] == A:
            table(world, "readmodela").delete_entity(row)


def without_its_number(world):
    """Lose the row that leads from a number to its order."""
    for row in table(world, "agenda").list_entities():
        table(world, "agenda").delete_entity(row)


def still_on_the_agenda(world):
    """Leave a row of the agenda."""
    table(world, "agenda").create_entity(
        {"PartitionKey": "a-0", "RowKey": "2030-01-01T12:00:00Z|expire|x", "name": "x"}
    )


def still_on_the_bus(world):
    """Leave a message."""
    world.bus.send(STARTS_IN_ORDER, "commands", '{"sluice": {"commands": []}}')


def without_commands(world):
    """Place an order and lose all that it sends to the seats."""
    with world.app() as app:
        app.post("order-d")
        world.bus.complete(world.bus.waiting(LANE))
        world.clock.advance(minutes=17)
        app.tick()
        world.bus.complete(world.bus.waiting(LANE))
        run(app, VIEWS)


def without_a_confirm(world):
    """Pay an order and lose the confirm: its seats stay reserved, and nobody sold them."""
    with world.app() as app:
        app.post("order-e")
        run(app, LANE, "seats-events/processes")
        world.pay("order-e")
        run(app, PAYMENTS, VIEWS)
        world.bus.complete(world.bus.waiting(LANE))


def without_its_home(world):
    """Lose an order."""
    rows = table(world, "homes").query_entities("PartitionKey eq @home", parameters={"home": f"order-{A}"})
    for row in list(rows):
        table(world, "homes").delete_entity(row)


def with_another_roll(world):
    """Have a roll that the audit does not know, and start its orders the other way round."""
    places = [RollPlace("y", 1, "2026"), RollPlace("x", 2, "2027")]
    roll = make_roll(GATE, GateState(epoch=7, is_open=True), places)
    world.observer().blobs.get_blob_client("gates", f"_roll-{GATE}-7").upload_blob(roll.content)
    starts = [{"id": "x"}, {"id": "y"}]
    world.bus.send(STARTS_IN_ORDER, "commands", json.dumps({"sluice": {"commands": starts}}), session=GATE)
    world.bus.complete(world.bus.waiting(STARTS_IN_ORDER))


def with_a_hash_alone(world):
    """Have the audit name a roll that nobody made."""
    act = {"who": "ann", "what": "gate roll", "target": GATE, "why": "", "epoch": "8", "result": "sha256 00"}
    table(world, "audit").create_entity({"PartitionKey": "2026-11", "RowKey": "2026-11-20T12:00:00|x", **act})


#: Each with what is said, the worst last.
SPOILT = {
    with_another_roll: ("hash of the roll of epoch 7", "roll of epoch 7 would stay", "roll of epoch 7 was started as"),
    with_a_hash_alone: ("roll of epoch 8 that is not there",),
    answered_otherwise: ("was answered in 2 ways",),
    paid_in_vain: ("lost: payment p9",),
    without_its_view: ("the view orders 1",),
    still_on_the_agenda: ("stuck: row",),
    still_on_the_bus: ("stuck: letter to starts-in-order",),
    without_commands: ("a command was lost", "late: order-order-d"),
    without_a_confirm: ("leaked: 1 seats", "its orders have 2"),
    without_its_number: ("does not lead to",),
    without_its_home: ("answered and is not there",),
}


def test_each_breach_is_named(world):
    """What is spoilt is said, and was not said before."""
    for spoil, said in SPOILT.items():
        for words in said:
            assert not any(words in breach for breach in breaches(world, SALE)), words
        spoil(world)
        found = list(breaches(world, SALE))
        for words in said:
            assert any(words in breach for breach in found), (words, found)
