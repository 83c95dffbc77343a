"""Registration end to end, over Azurite and the broker, without a host."""

from decimal import Decimal

import pytest

from capabilities.registration.public_messages import PlaceOrder
from capabilities.registration.seats import check_balance
from shared.azure import Destination
from shared.capability import DeadLetter
from shared.errors import RefusedError
from shared.processes import Event, EventRange, event_parcels, message_of
from tests.waiting import until

TOPIC = Destination("topic", "seats-events")


def place(world, order, seats=1, **fields):
    """Place an order for seats."""
    return world.verbs.orders.place(PlaceOrder(order=order, conference="c1", seats={"a": seats}, **fields))


def open_conference(world, quota=2):
    """Make a conference with one seat type."""
    world.take("conference", id="k1", conference="c1", seats={"a": {"price": "500.00", "quota": quota}})
    world.pump()


@pytest.fixture
def world(on_azurite):
    """Its storage is real."""
    return on_azurite


def test_three_orders_for_two_seats_one_paid_one_expired(world):
    """The balance is right, every order has its end, and nothing is left to do."""
    open_conference(world)
    placed = [place(world, f"order-{n}") for n in range(3)]
    assert [one.total for one in placed] == [Decimal("500.00")] * 3
    assert len({one.number for one in placed}) == 3
    world.pump()
    assert sorted(world.order(f"order-{n}").phase for n in range(3)) == ["rejected", "reserved", "reserved"]
    paid, expired = [f"order-{n}" for n in range(3) if world.order(f"order-{n}").phase == "reserved"]
    world.take("payment", id="p1", order=paid, outcome="completed", amount="500.00")
    world.pump()
    assert world.order(paid).phase == "confirmed"
    world.tick(seconds=900 + 60 + 1)
    world.pump()
    assert world.order(expired).phase == "expired"
    state = world.seats("c1")
    assert check_balance(state) == []
    assert (state.types["a"].available, state.types["a"].reserved, state.types["a"].confirmed) == (1, 0, 1)
    until(lambda: world.rows() == [])


def test_orders_behind_a_gate_start_when_it_opens(world):
    """They are stored, numbered and priced at once; their window begins with the start."""
    open_conference(world, quota=3)
    first = place(world, "order-1", gate="sale")
    assert world.order("order-1").phase == "held"
    assert place(world, "order-1", gate="sale") == first
    place(world, "order-2", gate="sale")
    world.verbs.orders.change("order-2", world.order("order-2").version, {"a": 2})
    world.release("sale")
    world.pump()
    assert [world.order(f"order-{n}").phase for n in (1, 2)] == ["reserved", "reserved"]
    assert world.seats("c1").types["a"].reserved == 3
    world.tick(seconds=961)
    world.pump()
    assert world.seats("c1").types["a"].available == 3
    until(lambda: world.rows() == [])


def test_a_held_order_whose_writer_died_is_held_by_the_tick(world):
    """Its home was stored, its row at the gate was not."""
    open_conference(world)
    hold = world.stores.held_work.hold
    world.stores.held_work.hold = lambda *given: (_ for _ in ()).throw(SystemExit)
    with pytest.raises(SystemExit):
        place(world, "order-1", gate="sale")
    world.stores.held_work.hold = hold
    world.restart()
    world.tick(seconds=61)
    world.release("sale")
    world.pump()
    assert world.order("order-1").phase == "reserved"


def test_the_same_order_gets_the_same_answer(world):
    """Another content under its id is refused; so is another code."""
    open_conference(world)
    first = place(world, "order-1")
    world.restart()
    assert place(world, "order-1") == first
    for other in ({"seats": 2}, {"access_code": "12345678"}):
        with pytest.raises(RefusedError) as refused:
            place(world, "order-1", **other)
        assert refused.value.reason == "order_differs"
    assert world.own.agenda.find(first.number) == "order-order-1"


def test_a_change_counts_once_and_moves_only_the_difference(world):
    """The same request gets the same version again, also when the order has gone on."""
    open_conference(world, quota=3)
    place(world, "order-1")
    world.pump()
    version = world.order("order-1").version
    changed = world.verbs.orders.change("order-1", version, {"a": 3})
    world.pump()
    assert world.order("order-1").phase == "reserved"
    assert world.verbs.orders.change("order-1", version, {"a": 3}) == changed
    assert world.seats("c1").types["a"].reserved == 3
    with pytest.raises(RefusedError) as refused:
        world.verbs.orders.change("order-1", version, {"a": 2})
    assert refused.value.reason == "version_differs"
    with pytest.raises(RefusedError) as refused:
        world.verbs.orders.change("order-9", 1, {"a": 2})
    assert refused.value.reason == "unknown_order"


def test_what_the_queue_refuses_is_parked(world):
    """A payment of nobody's order, an id with other content, an unknown conference, text without sense."""
    open_conference(world)
    world.take("payment", id="p1", order="order-9", outcome="completed", amount="1.00")
    world.take("conference", id="k1", conference="c1", seats={"a": {"price": "400.00", "quota": 2}})
    world.take("place_order", order="order-1", conference="c9", seats={"a": 1})
    world.take("nonsense")
    # A doubled message of the same content is none of them.
    world.take("conference", id="k1", conference="c1", seats={"a": {"price": "500.00", "quota": 2}})
    assert sorted(world.parked()) == ["id_differs", "unknown_conference", "unknown_kind", "unknown_order"]


def test_what_was_obeyed_is_not_refused_when_it_comes_again(world):
    """The seats that it removed are gone, and the quota that it set was changed since: its id says that it was obeyed."""
    open_conference(world, quota=2)
    for _ in range(2):
        world.take("remove_seats", id="k2", conference="c1", seats={"a": 2})
        world.take("conference", id="k1", conference="c1", seats={"a": {"price": "500.00", "quota": 2}})
    assert world.parked() == []
    assert world.seats("c1").types["a"].quota == 0
    world.take("remove_seats", id="k2", conference="c1", seats={"a": 1})
    world.take("remove_seats", id="k3", conference="c1", seats={"a": 1})
    assert sorted(world.parked()) == ["id_differs", "seats_taken"]


def test_an_answer_that_nobody_asked_for_is_parked_and_put_back(world):
    """The process keeps its state."""
    open_conference(world)
    place(world, "order-1")
    event = Event(
        "seats_reserved",
        {"order": "order-1", "granted": {"a": 1}, "remaining": {"a": 1}, "not_after": world.clock.now().isoformat()},
        world.clock.now(),
        generation=7,
        version=1,
    )
    body = message_of(list(event_parcels(TOPIC, "c1", EventRange("seats-c1", 1, 1, (event,))))).body
    world.verbs.hear([body])
    assert world.parked() == ["unexpected_reply"]
    world.pump()
    assert world.order("order-1").phase == "reserved"


def test_a_dead_letter_is_parked_and_flushes_its_home(world):
    """An outbox is not left behind in an error queue."""
    open_conference(world)
    place(world, "order-1")
    letter = DeadLetter("starts", "m1", b'{"sluice":{"kind":"commands","commands":[]}}', "MaxDeliveryCountExceeded")
    world.verbs.park([letter])
    assert world.parked() == ["dead_lettered"]
