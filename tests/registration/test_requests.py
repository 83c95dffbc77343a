"""The requests of an order, from its placing to the answer in its view: alone, and in a rush behind a gate.

The host receives and completes each message besides. `make bench` counts these too.
"""

import asyncio
import json
from datetime import timedelta

from capabilities.registration import http
from capabilities.registration.public_messages import PlaceOrder
from shared.azure import BUS, tally_requests
from shared.processes import EVENT_SHARDS, SHARDS


def place(world, order, **fields):
    """Place an order for one seat."""
    return world.verbs.orders.place(PlaceOrder(order=order, conference="c1", seats={"a": 1}, **fields))


def warm_up(world):
    """Make a conference, and sell a seat by each shard of the agenda: the hot stream has its note, each shard its hint."""
    world.take("conference", id="k1", conference="c1", seats={"a": {"price": "500.00", "quota": 100}})
    world.pump()
    for shard in range(SHARDS):
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
    assert sent <= 2 * EVENT_SHARDS + 10


def test_the_first_look_of_a_customer_reads_the_view_alone(world):
    """The instance that stored an order knows that its code is right: no read of the home, and no hash."""
    warm_up(world)
    order = {"order": "order-1", "conference": "c1", "seats": {"a": 1}, "access_code": "a-code-of-mine"}

    def look(code):
        return asyncio.run(world.part.desk.show("order-1", code, None, {})).status

    assert asyncio.run(world.part.desk.place(json.dumps(order).encode())).status == 202
    world.pump()
    with tally_requests() as tally:
        assert look("a-code-of-mine") == 200
    assert {kind.entity for kind, _ in tally.counts()} == {"models", "readmodela"}
    assert look("another-code") == 404


def test_a_name_that_no_order_can_have_is_like_an_unknown_order(world):
    """Python takes ² for a digit, and no number for it. Only digits of ASCII make the number of an order."""
    unknown = asyncio.run(world.part.desk.show("order-9", "a-code-of-mine", None, {}))
    assert unknown.status == 404
    for name in ("²", "٣", "7²", "9" * 13, "9" * 5000, "a b", "..", "~1", "a/b?c#d", "\x00", "A"):
        shown = asyncio.run(world.part.desk.show(name, "a-code-of-mine", None, {}))
        changed = asyncio.run(world.part.desk.change(name, "a-code-of-mine", '"1"', b'{"seats": {"a": 1}}'))
        assert (shown.status, shown.body) == (changed.status, changed.body) == (404, unknown.body), name


def test_an_order_that_was_stored_here_just_now_is_shown_without_its_home(world):
    """As its home says it, word for word. Not after two seconds, nor once it was changed here, nor beside a row."""
    warm_up(world)
    order = {"order": "order-1", "conference": "c1", "seats": {"a": 1}, "access_code": "a-code-of-mine"}
    assert asyncio.run(world.part.desk.place(json.dumps(order).encode())).status == 202

    def look():
        with tally_requests() as tally:
            answer = asyncio.run(world.part.desk.show("order-1", "a-code-of-mine", None, {}))
        return answer, "homes" in {kind.entity for kind, _ in tally.counts()}

    remembered, is_read = look()
    assert not is_read
    world.clock.moment += timedelta(seconds=2)
    assert look() == (remembered, True)
    world.clock.moment -= timedelta(seconds=2)
    changed = asyncio.run(world.part.desk.change("order-1", "a-code-of-mine", '"2"', b'{"seats": {"a": 2}}'))
    assert changed.status == 202
    answer, is_read = look()
    assert (is_read, json.loads(answer.body)["requested"]) == (True, {"a": 2})
    world.part.desk._orders.remember(
        world.verbs.orders.place(PlaceOrder(order="order-2", conference="c1", seats={"a": 1})).made
    )
    world.pump()
    assert world.part.desk._orders.find("order-2").order.phase == "reserved"


def test_a_customer_who_waits_for_a_row_has_the_home_read_at_the_begin_and_at_the_end(world):
    """Between them one request is enough to see that no projection came."""
    warm_up(world)
    order = {"order": "order-1", "conference": "c1", "seats": {"a": 1}, "access_code": "a-code-of-mine"}
    assert asyncio.run(world.part.desk.place(json.dumps(order).encode())).status == 202
    # It is not shown from memory any more.
    world.clock.moment += timedelta(seconds=2)
    with tally_requests() as tally:
        answer = asyncio.run(world.part.desk.show("order-1", "a-code-of-mine", None, {"wait": "0.7"}))
    assert json.loads(answer.body)["state"] == "placed"
    found = {kind.entity: 0 for kind, _ in tally.counts()}
    for (kind, _), number in tally.counts().items():
        found[kind.entity] += number
    looks = len(http.Wait(0.7).pauses())
    assert (found["homes"], found["readmodela"]) == (2, 1 + looks)
    assert looks == 3


def test_a_customer_who_waits_right_after_placing_reads_when_it_has_waited(world):
    """The first read of a request that waits would find what the answer to the order has said."""
    warm_up(world)
    order = {"order": "order-1", "conference": "c1", "seats": {"a": 1}, "access_code": "a-code-of-mine"}
    assert asyncio.run(world.part.desk.place(json.dumps(order).encode())).status == 202

    def show(**query):
        with tally_requests() as tally:
            answer = asyncio.run(world.part.desk.show("order-1", "a-code-of-mine", None, query))
        return json.loads(answer.body)["state"], sum(
            number for (kind, _), number in tally.counts().items() if kind.entity == "readmodela"
        )

    assert show(wait="0.7") == ("placed", 3)
    # What it waits for is there already: it is read before it is answered.
    assert show(wait="0.7", after="1") == ("placed", 1)
    world.pump()
    assert show(wait="0.7") == ("reserved", 1)
