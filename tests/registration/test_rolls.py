"""Held orders get seats in the order of the roll of their gate, whatever their senders call them."""

import hashlib
import json
import re
from datetime import timedelta
from itertools import permutations

import pytest

from capabilities.registration import events as order_events
from capabilities.registration.entities import STARTS, STARTS_IN_ORDER
from capabilities.registration.order import order_home
from capabilities.registration.order_messages import seats_home
from capabilities.registration.public_messages import PlaceOrder
from capabilities.registration.roll_check import FirstAnswer, check_roll
from capabilities.registration.selling import OutOfTurnError
from shared.azure import Destination
from shared.processes import bundle_parcel, decode_commands
from tests.registration.test_flows import open_conference, place
from tests.registration.test_operator import typed
from tests.registration.world import GATE, LANE
from tools.cli.options import PROBLEM_FOUND, WRONG_CALL
from tools.local.paths import ROOT

ORDERS, SEATS = 30, 20


def hold(world, number=ORDERS):
    """Place orders whose ids are against their arrival, and return the ids as they arrived."""
    ids = [f"order-{n:02}" for n in reversed(range(number))]
    for order in ids:
        place(world, order, gate=GATE)
    return ids


def rejected(world, ids):
    """Return the orders without seats, in the order of the ids given."""
    return [order for order in ids if world.order(order).phase == "rejected"]


def test_the_last_ten_of_thirty_orders_for_twenty_seats_are_rejected(world):
    """By their arrival: the first that came is the last by its id."""
    open_conference(world, quota=SEATS)
    ids = hold(world)
    assert world.release(GATE) == ORDERS
    world.pump()
    assert rejected(world, ids) == ids[SEATS:]
    roll = world.stores.rolls.find(GATE, 1)
    assert ([place_.id for place_ in roll.places], roll.order) == (ids, "arrival")
    assert all(place_.number for place_ in roll.places)


def test_the_first_roll_of_an_opening_stays(world):
    """Whoever comes later serves it, with what was held since behind it, also the first of all by its id."""
    open_conference(world)
    ids = hold(world, 2)
    world.stores.gate_operator.open(GATE, by="ann")
    state = world.stores.gates.read(GATE)
    made = world.stores.rolls.open(GATE, state)
    # Its keeper had found the gate closed, and wrote the row after the roll was made.
    message = next(world.stores.held.pages(GATE))[0]
    world.stores.held_work.keep(_like(message, "a-late-one"))
    assert world.stores.rolls.open(GATE, state) == made
    before, batch = next(world.stores.rolls.batches(GATE, state, None, lambda: None))
    assert (before, [entry.id for entry in batch]) == ([], [*ids, "a-late-one"])


def _like(entry, id_):
    return type(entry)(
        gate=entry.gate, id=id_, epoch=0, queue=entry.queue, message=entry.message, held_at=entry.held_at, number=99
    )


def test_an_order_that_is_held_again_is_the_same_order(world):
    """The tick holds it once more if its events were sent late, and its row says that they were sent."""
    open_conference(world)
    (order,) = hold(world, 1)
    row = next(world.stores.held.pages(GATE))[0]
    home = order_home(order)
    world.verbs.orders.resume(home, world.own.homes.read_head(home))
    assert next(world.stores.held.pages(GATE)) == [row]


def test_an_order_with_a_place_is_not_sent_ahead_of_it_by_the_tick(world):
    """Its writer ended after it was held, and the tick follows it when the gate is open and not yet served."""
    open_conference(world, quota=1)
    first, second = hold(world, 2)
    world.stores.gate_operator.open(GATE, by="ann")
    home = order_home(second)
    world.verbs.orders.resume(home, world.own.homes.read_head(home))
    assert world.peek_session(STARTS_IN_ORDER, GATE) == []
    assert world.let_out(GATE) == 2
    # Its row is gone: nobody else leads to it.
    world.verbs.orders.resume(home, world.own.homes.read_head(home))
    assert len(world.peek_session(STARTS_IN_ORDER, GATE)) == 2
    world.pump()
    assert [world.order(order).phase for order in (first, second)] == ["reserved", "rejected"]


def test_starts_on_the_queue_of_before_are_taken(world):
    """An instance of 0.3.0 sends there. A message has the same form on both queues."""
    open_conference(world)
    place(world, "order-1", gate=GATE)
    entry = next(world.stores.held.pages(GATE))[0]
    world.verbs.starts.send([entry], ())
    (body,) = world.peek_session("starts-in-order", GATE)
    commands = decode_commands(body)
    world.verbs._core.publisher.send([bundle_parcel(Destination("bus", STARTS), commands)])
    world.part.start([body])
    world.pump()
    assert world.order("order-1").phase == "reserved"


def test_an_opening_says_the_hash_of_its_roll_and_the_audit_keeps_it(world):
    """The roll that the command prints has this hash, byte for byte."""
    open_conference(world, quota=2)
    hold(world, 3)
    opened = json.loads(typed(world, f"sluice gate open {GATE} --yes --by ann --json").stdout)
    assert {name: opened["roll"][name] for name in ("order", "orders")} == {"order": "arrival", "orders": 3}
    world.let_out(GATE)
    printed = typed(world, f"sluice gate roll {GATE}").stdout
    assert hashlib.sha256(printed.encode()).hexdigest() == opened["roll"]["sha256"]
    acts = json.loads(typed(world, f"sluice audit --about {GATE} --json").stdout)["acts"]
    (noted,) = [act for act in acts if act["what"] == "gate roll"]
    assert noted["result"] == f"3 orders by arrival, sha256 {opened['roll']['sha256']}"
    assert typed(world, f"sluice gate roll {GATE} --epoch 2").exit_code == PROBLEM_FOUND


def test_a_stranger_draws_the_lottery_again_from_the_published_seed(world, tmp_path, monkeypatch):
    """By the lines of the page, with the roll and the seed alone. The hash of the seed was known before."""
    monkeypatch.chdir(tmp_path)
    open_conference(world, quota=SEATS)
    hold(world)
    committed = json.loads(typed(world, f"sluice gate seed {GATE} --by ann --json").stdout)["sha256"]
    seed_file = tmp_path / f"{GATE}.seed"
    assert seed_file.stat().st_mode & 0o077 == 0
    seed = seed_file.read_text().strip()
    assert typed(world, f"sluice gate seed {GATE} --by ann").exit_code == WRONG_CALL
    assert seed_file.read_text().strip() == seed
    opened = typed(world, f"sluice gate open {GATE} --yes --by ann --order lottery --seed {seed}")
    assert "30 orders start by lottery" in opened.stdout
    world.let_out(GATE)
    world.pump()
    (tmp_path / "roll.json").write_text(typed(world, f"sluice gate roll {GATE}").stdout)
    page = (ROOT / "docs" / "appendix" / "gate.md").read_text()
    (script,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "roll.json" in block]
    known = {}
    exec(compile(script, "page", "exec"), known)
    assert known["committed"] == committed
    roll = json.loads((tmp_path / "roll.json").read_text())
    drawn = [place_[0] for place_ in roll["places"]]
    assert drawn != sorted(drawn, reverse=True)
    assert rejected(world, drawn) == drawn[SEATS:]
    acts = json.loads(typed(world, f"sluice audit --about {GATE} --json").stdout)["acts"]
    assert {act["what"] for act in acts if act["details"].get("seed_sha256") == committed} == {"gate seed", "gate open"}


def test_the_page_finds_a_roll_that_was_not_drawn_by_its_seed(tmp_path, monkeypatch):
    """The lines fail for another order, so that they prove something."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "appendix" / "gate.md").read_text()
    (script,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "roll.json" in block]
    results = []
    for order in permutations([["a", 1, ""], ["b", 2, ""], ["c", 3, ""]]):
        (tmp_path / "roll.json").write_text(json.dumps({"seed": "ab", "places": order}))
        try:
            exec(compile(script, "page", "exec"), {})
        except AssertionError:
            results.append(False)
        else:
            results.append(True)
    assert sorted(results) == [False] * 5 + [True]


def test_a_lottery_without_its_seed_is_refused(world):
    """So is a seed without a lottery, one that was not drawn, and one that would lie in storage until its time."""
    seed = "ab" * 32
    for options, said in {
        "--order lottery": "was opened with order 'lottery' without --seed: publish its SHA-256 before the sale",
        f"--seed {seed}": "--seed goes with --order lottery",
        "--order lottery --seed mine": "expected 64 hexadecimal digits",
        f"--order lottery --seed {seed} --at 2099-01-01T09:00Z": "is opened at its time and not planned",
    }.items():
        done = typed(world, f"sluice gate open {GATE} --yes --by ann {options}")
        assert (done.exit_code, said in done.output) == (WRONG_CALL, True), done.output
    assert world.stores.gates.read(GATE).epoch == 0


def test_a_person_is_shown_why_an_order_got_its_seats(world):
    """Its place, and how the answers came out against the roll."""
    open_conference(world, quota=2)
    ids = hold(world, 3)
    place(world, "order-9")
    world.release(GATE)
    world.pump()
    told = json.loads(typed(world, f"sluice seats show c1 --why {ids[1]} --json").stdout)
    assert (told["place"], told["places"], told["answered_as"], told["granted"]) == (2, 3, 2, {"a": 0})
    assert (told["overtaking"], told["inversions"], told["overtaken_by"]) == (0, 0, [])
    shown = typed(world, f"sluice seats show c1 --why {ids[0]}").stdout
    assert "place 1 of 3 on the roll of gate 'sale', epoch 1, by arrival" in shown.replace("\n", " ")
    assert "reserved 1 of 1 a, as number 1" in shown
    assert "0 of 3 were answered before an order with an earlier place" in shown
    assert typed(world, "sluice seats show c1 --why order-9").exit_code == PROBLEM_FOUND


@pytest.fixture
def lane(world, monkeypatch):
    """What is on the lane of the seats: four messages, for the bus may change their order. The first order is the last by its id."""
    monkeypatch.setattr("capabilities.registration.order_flows.MOST_STARTS", 1)
    open_conference(world, quota=2)
    ids = hold(world, 4)
    world.release(GATE)
    for body in world.peek_session(STARTS_IN_ORDER, GATE):
        world.verbs.starts.take([body])
    bodies = world.peek_session(LANE, seats_home("c1"))
    assert [command.body["order"] for (command,) in map(decode_commands, bodies)] == ids
    return ids, bodies


def answered(world, ids):
    """Return the orders that the conference has answered, in the order of its events."""
    events = world.own.homes.load(seats_home("c1")).events
    return [event.body["order"] for event in events if event.body.get("order") in ids]


def test_a_batch_of_the_lane_is_answered_in_the_order_of_the_roll(world, lane):
    """However the bus had put its messages."""
    ids, (a, b, c, d) = lane
    world.verbs.seats.sell([d, b, a, c])
    assert answered(world, ids) == ids


def test_an_order_whose_turn_has_not_come_waits_for_the_one_before_it(world, lane):
    """Its message comes again. What is in its turn is obeyed meanwhile, and once."""
    ids, (a, b, c, d) = lane
    for batch in ([c, b], [c, a, d]):
        with pytest.raises(OutOfTurnError, match="before the first of them"):
            world.verbs.seats.sell(batch)
    assert answered(world, ids) == ids[:1]
    world.verbs.seats.sell([d, c, a, b])
    assert answered(world, ids) == ids


def test_no_order_waits_for_ever_for_one_that_was_lost(world, lane, told):
    """After a minute it is obeyed, and those behind it in their order. An operator is told."""
    ids, (a, _lost, c, d) = lane
    for _ in range(2):
        with pytest.raises(OutOfTurnError):
            world.verbs.seats.sell([a, d, c])
        world.clock.moment += timedelta(seconds=59)
    assert told(order_events.SEATS_OUT_OF_TURN) == []
    world.clock.moment += timedelta(seconds=2)
    world.verbs.seats.sell([a, d, c])
    assert answered(world, ids) == [ids[0], *ids[2:]]
    assert told(order_events.SEATS_OUT_OF_TURN) == [{"home": "seats-c1", "commands": 2, "after": ids[1]}]


def test_starts_that_come_in_another_order_are_answered_in_that_of_the_roll(world, monkeypatch):
    """Each names the one before it for its conference, also where another process sent that one."""
    monkeypatch.setattr("capabilities.registration.order_flows.MOST_STARTS", 1)
    monkeypatch.setattr("shared.gate.rolls.BATCH", 2)
    open_conference(world)
    ids = hold(world, 5)
    world.stores.gate_operator.open(GATE, by="ann")
    state = world.stores.gates.read(GATE)
    for before, batch in world.stores.rolls.batches(GATE, state, None, lambda: None):
        world.stores.held_work.send(batch, before)
        world.stores.held_work.forget_all(batch)
        if before:
            world.restart()
    bodies = world.peek_session(STARTS_IN_ORDER, GATE)
    assert len(bodies) == len(ids)
    for body in reversed(bodies):
        world.verbs.starts.take([body])
    world.verbs.seats.sell(world.peek_session(LANE, seats_home("c1")))
    assert answered(world, ids) == ids


def test_each_conference_of_a_roll_keeps_its_order_over_a_handover(world, monkeypatch):
    """The next process reads back on the roll to the last order of each conference that it sends starts of."""
    monkeypatch.setattr("shared.gate.rolls.BATCH", 4)
    for name in ("c1", "c2"):
        world.take("conference", id=name, conference=name, seats={"a": {"price": "5.00", "quota": 9}})
    world.pump()
    wanted, last = {}, {}
    for number, name in enumerate(("c2", "c1", "c1", "c1", "c2", "c1", "c1", "c1", "c1", "c2")):
        world.verbs.orders.place(PlaceOrder(order=f"order-{number}", conference=name, seats={"a": 1}, gate=GATE))
        wanted[f"order-{number}"], last[name] = last.get(name, ""), f"order-{number}"
    world.stores.gate_operator.open(GATE, by="ann")
    state, read = world.stores.gates.read(GATE), []
    for before, batch in world.stores.rolls.batches(GATE, state, None, lambda: None):
        homes = world.verbs.starts._homes
        monkeypatch.setattr(homes, "load", lambda key, load=homes.load: (read.append(key), load(key))[1])
        world.stores.held_work.send(batch, before)
        world.stores.held_work.forget_all(batch)
        world.restart()
    commands = [one for body in world.peek_session(STARTS_IN_ORDER, GATE) for one in decode_commands(body)]
    named = {one.body["start"]["order"]: one.body["start"].get("after", "") for one in commands}
    assert named == wanted
    assert read == [order_home(f"order-{number}") for number in (3, 2, 1, 0, 7, 6, 5, 4)]


def answers(**versions):
    """Return answers by order: the version, negative for an order that got no seat."""
    return {order: FirstAnswer(abs(version), {"a": int(version > 0)}) for order, version in versions.items()}


def test_an_inversion_is_told_from_seats_that_came_back():
    """An order that was answered too early took a seat; one that was answered later got what had been given back."""
    even = check_roll("xyz", answers(x=1, y=2, z=-3))
    assert (even.overtaking, even.inverted, even.came_back) == ([], [], [])
    early = check_roll("xyz", answers(x=1, y=-3, z=2))
    assert (early.overtaking, early.inverted, early.came_back) == (["z"], ["z"], [])
    back = check_roll("xyz", answers(x=1, y=-2, z=3))
    assert (back.overtaking, back.inverted, back.came_back) == ([], [], ["z"])
    assert check_roll("xyz", answers(z=1, x=2)).answered == ["z", "x"]
    assert check_roll("xyz", answers(z=1, x=2)).overtaking == ["z"]
    assert check_roll("xyz", {}).overtaking == []
