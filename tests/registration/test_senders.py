"""Customers, banks and shops: each kind of message is obeyed from its own queue alone, and a change needs the order's code."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from capabilities.registration.entities import ORDERS
from capabilities.registration.order import order_home
from capabilities.registration.order_messages import seats_home
from capabilities.registration.parked_orders import BUS_STAGE, ORDERS_STAGE, SALES_STAGE
from capabilities.registration.public_messages import _READERS, CONFERENCES_QUEUE, PAYMENTS_QUEUE
from capabilities.registration.seats import check_balance
from shared.capability import DeadLetter
from shared.errors import NewerVersionError
from shared.messages import Delivery
from shared.parked import EntryState
from shared.telemetry import events
from tests.registration.test_flows import open_conference, place
from tests.registration.test_parked_orders import CODE, entries, leaks
from tests.registration.world import QUEUE_OF
from tools.cli.main import app
from tools.cli.watching import NOT_ENDED

OFFER = {"a": {"price": "1.00", "quota": 2}}
#: What a sender of another queue would like to do: the order is placed, reserved and not paid.
WISHES = {
    "conference": {"id": "w1", "conference": "c1", "seats": OFFER},
    "add_seats": {"id": "w2", "conference": "c1", "seats": {"a": 9}},
    "remove_seats": {"id": "w3", "conference": "c1", "seats": {"a": 1}},
    "close_conference": {"id": "w4", "conference": "c1"},
    "payment": {"id": "w5", "order": "order-1", "outcome": "completed", "amount": "500.00"},
    "place_order": {"order": "order-2", "conference": "c1", "seats": {"a": 1}, "access_code": CODE},
    "update_order": {"id": "w6", "order": "order-1", "version": 3, "seats": {"a": 2}, "access_code": CODE},
}
ADDRESSES = (ORDERS, str(PAYMENTS_QUEUE), str(CONFERENCES_QUEUE))


def own_queue(kind):
    """Return the queue that the page names for a kind."""
    return QUEUE_OF.get(kind, ORDERS)


@pytest.fixture
def sale(world):
    """A conference with one of two seats reserved."""
    open_conference(world)
    place(world, "order-1", access_code=CODE)
    world.pump()
    return world


def heads(world):
    """Return the versions of all that a message could change."""
    names = (seats_home("c1"), order_home("order-1"), order_home("order-2"))
    return [head and head.version for head in map(world.own.homes.read_head, names)]


def test_every_kind_has_one_queue():
    """A new kind is missing here first."""
    assert {*WISHES} == {*_READERS}
    assert {own_queue(kind) for kind in WISHES} == {*ADDRESSES}


def test_no_message_is_obeyed_from_another_queue(sale):
    """Each is parked with the queue that it came by and the one that takes its kind. A replay changes nothing of that."""
    before = heads(sale)
    for kind, fields in WISHES.items():
        for queue in {*ADDRESSES} - {own_queue(kind)}:
            sale.take(kind, queue=queue, **fields)
    sale.pump()
    assert heads(sale) == before
    found = list(sale.stores.parked_table.entries())
    assert {entry.reason for entry in found} == {"wrong_queue"}
    assert len(found) == 2 * len(WISHES)
    for entry in found:
        kind = json.loads(sale.stores.parked_table.body(entry))["sluice"]["kind"]
        assert entry.stage == (ORDERS_STAGE if entry.queue == ORDERS else SALES_STAGE)
        assert repr(entry.queue) in entry.found
        assert repr(own_queue(kind)) in entry.found
    # The first wave is one entry, and a replay whose entries come back ends.
    assert sale.replay("wrong_queue") == (["same again"], 1)
    assert heads(sale) == before
    assert leaks(sale) == []


def test_each_is_obeyed_from_its_own(sale):
    """The same messages: what kept them from their effect was the queue."""
    # The one after which an order cannot be changed comes last.
    for kind in sorted(WISHES, key="payment".__eq__):
        before = heads(sale)
        fields = WISHES[kind]
        if kind == "conference":
            fields = {**fields, "seats": {"b": OFFER["a"]}}
        sale.take(kind, **fields)
        assert heads(sale) != before, kind
        assert sale.parked() == [], kind


def test_a_change_by_message_needs_the_code_of_its_order(sale):
    """Without one, with a wrong one, and of no order: refused, and the last two are told and counted alike."""
    version = sale.order("order-1").version
    change = {"version": version, "seats": {"a": 2}}
    before, wrong = heads(sale), []
    sale.verbs.orders._note_wrong = lambda: wrong.append(1)
    sale.take("update_order", id="u1", order="order-1", **change)
    assert (sale.parked(), wrong) == (["missing_field"], [])
    sale.take("update_order", id="u2", order="order-1", access_code="not-the-code", **change)
    sale.take("update_order", id="u3", order="order-9", access_code=CODE, **change)
    assert (heads(sale), len(wrong)) == (before, 2)
    wrong_code, no_order = (entry for entry in sale.stores.parked_table.entries() if entry.reason == "unknown_order")
    names = "'order-1'", "'order-9'"
    assert {wrong_code.found.replace(name, "") for name in names} & {no_order.found.replace(name, "") for name in names}
    sale.take("update_order", id="u4", order="order-1", access_code=CODE, **change)
    sale.pump()
    assert sale.order("order-1").reserved == {"a": 2}
    assert leaks(sale) == []


def test_a_change_counts_once_however_often_it_comes(sale):
    """By its id. Also with a new code, which is no part of what it changes."""
    change = {"id": "u1", "order": "order-1", "version": sale.order("order-1").version, "seats": {"a": 2}}
    for _ in range(2):
        sale.take("update_order", access_code=CODE, **change)
    sale.pump()
    after = heads(sale)
    sale.restart()
    sale.take("update_order", access_code=CODE, **change)
    assert heads(sale) == after
    assert sale.parked() == []


def test_a_replayed_change_has_no_code_and_changes_nothing(world):
    """Its customer sends it again. If that was done, the entry is closed."""
    change = {"id": "u1", "order": "order-1", "version": 3, "seats": {"a": 2}, "access_code": CODE}
    open_conference(world)
    world.take("update_order", **change)
    place(world, "order-1", access_code=CODE)
    world.pump()
    before = heads(world)
    assert world.replay("unknown_order")[0] == ["other cause"]
    assert (heads(world), world.parked()) == (before, ["missing_field"])
    world.take("update_order", **change)
    assert world.replay("missing_field") == (["done before"], 0)


def test_what_a_version_before_parked_of_the_queue_orders_stays_listed(sale):
    """It took payments from there. A replay of one has no effect: whoever may send payments sends it again."""
    fields = WISHES["payment"]
    body = json.dumps({"sluice": {"v": 1, "kind": "payment", **fields}}).encode()
    letter = Delivery(queue=ORDERS, message_id="m", body=body, count=1)
    sale.verbs.parked._parking.park(ORDERS_STAGE, letter, LookupError("no such order then"))
    (entry,) = entries(sale).values()
    assert sale.replay(entry.reason)[0] == ["other cause"]
    (entry,) = entries(sale).values()
    assert (entry.reason, entry.state, entry.queue) == ("wrong_queue", EntryState.OPEN, ORDERS)
    sale.take("payment", **fields)
    sale.pump()
    assert sale.replay("wrong_queue") == (["done before"], 0)
    assert sale.order("order-1").phase == "confirmed"


@pytest.mark.parametrize("stage", [SALES_STAGE, BUS_STAGE])
def test_a_dead_letter_of_a_bank_is_put_back_once(sale, stage):
    """Also one that a version before parked: it knows no stage for it."""
    body = json.dumps({"sluice": {"kind": "payment", **WISHES["payment"]}}).encode()
    if stage == SALES_STAGE:
        sale.verbs.park([DeadLetter("payments", "m1", body, "MaxDeliveryCountExceeded")])
    else:
        letter = Delivery(queue=str(PAYMENTS_QUEUE), message_id="m1", body=body, count=1)
        sale.verbs.parked._parking.park(BUS_STAGE, letter, LookupError("gave up"))
    (entry,) = entries(sale).values()
    assert (entry.stage, entry.queue) == (stage, str(PAYMENTS_QUEUE))
    assert sale.replay(entry.reason)[0] == ["done"]
    assert sale.order("order-1").phase == "confirmed"


def test_a_closed_conference_has_nothing_left_to_sell(sale):
    """Whoever has a reservation keeps it, and may pay. What expires later comes back: it is closed again then."""
    sale.take("close_conference", id="x1", conference="c1")
    sale.take("close_conference", id="x1", conference="c1")
    sale.pump()
    seats = sale.seats("c1").types["a"]
    assert (seats.quota, seats.available, seats.reserved) == (1, 0, 1)
    place(sale, "order-2")
    sale.pump()
    assert sale.order("order-2").phase == "rejected"
    sale.tick(seconds=961)
    sale.pump()
    assert sale.seats("c1").types["a"].available == 1
    sale.take("close_conference", id="x2", conference="c1")
    # Nothing is left to remove.
    sale.take("close_conference", id="x3", conference="c1")
    sale.take("close_conference", id="x4", conference="c9")
    state = sale.seats("c1")
    assert (state.types["a"].quota, state.types["a"].available, check_balance(state)) == (0, 0, [])
    assert sale.parked() == ["unknown_conference"]


def test_a_message_of_the_bus_is_taken_at_the_pace_that_storage_bears(sale):
    """As all work of registration that comes by the bus."""
    delivery = Delivery(
        queue=str(PAYMENTS_QUEUE),
        message_id="m1",
        body=json.dumps({"sluice": {"kind": "payment", **WISHES["payment"]}}).encode(),
        count=1,
    )
    paced = []
    pace = sale.part._pace
    sale.part._pace = lambda lane, lock: paced.append(lane) or pace(lane, lock)
    sale.part.take_from_bus(delivery)
    assert len(paced) == 1
    sale.clock.moment += timedelta(seconds=1)
    sale.pump()
    assert sale.order("order-1").phase == "confirmed"


def test_a_payment_of_a_newer_version_is_told_once_a_delivery(sale, told):
    """By the one who rests after it."""
    body = json.dumps({"sluice": {"v": 2, "kind": "payment", **WISHES["payment"]}}).encode()
    rests = []
    sale.part._pace = replace(sale.part._pace, sleep=rests.append)
    with pytest.raises(NewerVersionError):
        sale.part.take_from_bus(Delivery(queue=str(PAYMENTS_QUEUE), message_id="m1", body=body, count=1))
    assert (len(told(events.NEWER_VERSION)), len(rests)) == (1, 1)


def test_the_command_that_pays_waits_until_the_seats_are_sold(sale):
    """Whoever closes the conference next finds no seats reserved for an order that is paid."""
    words = ["orders", "pay", "order-1", "--amount", "500.00", "--id", "w5", "--wait", "1", "--json"]
    sale.take("payment", **WISHES["payment"])
    sale.show()
    early = CliRunner().invoke(app, words, env=sale.environ)
    assert (early.exit_code, sale.order("order-1").phase) == (NOT_ENDED, "confirmed"), early.output
    sale.pump()
    done = CliRunner().invoke(app, words, env=sale.environ)
    assert (done.exit_code, json.loads(done.stdout)["now"]["state"]) == (0, "confirmed"), done.output
