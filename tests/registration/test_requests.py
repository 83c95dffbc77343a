"""The requests of an order, from its placing to the answer in its view: alone, and in a rush behind a gate.

The host receives and completes each message besides. `make bench` counts these too.
"""

from shared.azure import BUS, tally_requests
from shared.messaging import SHARDS
from shared.processes import SHARDS as AGENDA_SHARDS
from shared.registration import PlaceOrder


def place(world, order, **fields):
    """Place an order for one seat."""
    return world.verbs.place(PlaceOrder(order=order, conference="c1", seats={"a": 1}, **fields))


def warm_up(world):
    """Make a conference, and sell a seat by each shard of the agenda: the hot stream has its note, each shard its hint."""
    world.take("conference", id="k1", conference="c1", seats={"a": {"price": "500.00", "quota": 100}})
    world.pump()
    for shard in range(AGENDA_SHARDS):
        place(world, f"order-first-{shard}")
    world.pump()


def count(tally):
    """Return the numbers of storage requests and of messages that were sent."""
    kinds = [(kind.service, number) for (kind, _), number in tally.counts().items()]
    sent = sum(number for service, number in kinds if service == BUS)
    return sum(number for _, number in kinds) - sent, sent


def test_an_order_alone_makes_nine_storage_requests_and_four_messages(world):
    """The home is written twice and read once; the seats, two notes, two rows of its view, and the conference's view."""
    warm_up(world)
    with tally_requests() as tally:
        place(world, "order-1")
        world.pump()
    assert world.order("order-1").phase == "reserved"
    assert count(tally) == (9, 4)


def test_orders_in_a_rush_share_what_they_can(world):
    """Their homes are written twice and read once each. Notes, seats, views and messages serve many orders together."""
    orders = [f"order-{n}" for n in range(30)]
    warm_up(world)
    for order in orders:
        place(world, order, gate="sale")
    world.pump()
    with tally_requests() as tally:
        world.release("sale")
        world.pump()
    assert {world.order(order).phase for order in orders} == {"reserved"}
    storage, sent = count(tally)
    assert storage / len(orders) < 4.5
    # The start and the reservation of all, and for each shard the events of both.
    assert sent <= 2 * SHARDS + 10
