"""The pages of registration: stuck orders first, the story of each, the balance of seats, and migrations switched here."""

import re
from datetime import timedelta

import pytest

from capabilities.console.app import Application
from capabilities.console.session import LocalLogin
from capabilities.console.snapshot import Snapshot
from capabilities.console.visit import View
from capabilities.registration.pages import PAGES, OrdersPart
from capabilities.registration.views import ORDER_MODEL
from shared.processes import STUCK_AFTER
from shared.readmodels import Migration
from shared.usage import load
from tests.console.conftest import PORT, Visitor
from tests.console.test_acts import Form
from tests.console.test_pages import words
from tests.registration.conftest import installation
from tests.registration.test_flows import open_conference, place
from tests.waiting import until

#: The window of an order, its buffer, and what comes before it is called stuck.
LATE = timedelta(seconds=900 + 60 + 5) + STUCK_AFTER


@pytest.fixture(scope="module")
def world():
    """An installation with three orders for two seats."""
    with installation() as made:
        open_conference(made, quota=2)
        for number in range(3):
            place(made, f"order-{number}")
        made.pump()
        yield made


@pytest.fixture(scope="module")
def application(world):
    """The console over it."""
    snapshot = Snapshot(world.stores, work_queues=1, rooms=())
    part = OrdersPart(world.own, world.choice)
    view = View(
        stores=world.stores,
        snapshot=snapshot,
        clock=world.clock,
        prices=load(),
        pages=(PAGES,),
        parts={"registration": part},
    )
    login = LocalLogin(PORT, "dana", may_act=True, monotonic=world.clock.monotonic)
    return login, Application(view, login)


@pytest.fixture
def visitor(application):
    """A browser that was let in."""
    return Visitor(*application)


@pytest.fixture
def count(world):
    """Counts the storage requests of a visit."""

    def counted(visit):
        before = world.connections.meter.tally.total()
        reply = visit()
        return reply, world.connections.meter.tally.total() - before

    return counted


def test_orders_that_should_have_ended_are_told_first(world, visitor, count):
    """One request a shard, whatever their number."""
    # The row of the order that got no seat is deleted some seconds after its end.
    until(lambda: "of 2 orders that run" in words(visitor.get("/processes")))
    reply, requests = count(lambda: visitor.get("/processes"))
    assert re.search(r"0 stuck, of 2 orders that run", words(reply))
    assert requests == 4
    world.clock.moment += LATE
    try:
        shown = words(visitor.get("/processes"))
    finally:
        world.clock.moment -= LATE
    assert "2 stuck, of 2 orders that run" in shown
    assert re.search(r"order-\d stuck .* min", shown)


def test_orders_are_listed_a_page_at_a_time_and_found(visitor, count, monkeypatch):
    """A pointer and one page of rows. The link to the next page goes on where this one ended."""
    reply, requests = count(lambda: visitor.get("/orders"))
    assert requests == 2
    assert len(re.findall(r"order-\d", words(reply))) == 3
    assert "order-" in words(visitor.get("/orders?state=rejected"))
    assert len(re.findall(r">order-\d<", visitor.get("/orders?state=rejected").text)) == 1
    assert "None of the 3 orders" in words(visitor.get("/orders?unsettled=yes"))
    assert visitor.get("/orders?state=eaten").status_code == 400
    assert visitor.get("/orders?id=order-1").headers["Location"].endswith("/order/order-1")
    monkeypatch.setattr("capabilities.registration.pages._MOST", 2)
    seen, address = [], "/orders"
    while address:
        text = visitor.get(address).text
        seen += re.findall(r">(order-\d)<", text)
        following = re.search(r'href="[^"]*(/orders\?[^"]*after[^"]*)"', text)
        address = following and following[1].replace("&amp;", "&")
    assert sorted(seen) == ["order-0", "order-1", "order-2"]


def test_an_order_tells_its_story(visitor):
    """As its customer reads it, each command with its times, each event with its cause."""
    shown = words(visitor.get("/order/order-0"))
    for part in ("conference c1", "requested {&#34;a&#34;: 1}", "reserve_seats seats-c1", "order_placed", "stage "):
        assert part in shown
    assert visitor.get("/order/no-such").status_code == 404
    number = re.search(r"number (\d+)", shown)[1]
    assert "Order order-0" in words(visitor.get(f"/order/{number}"))


def test_seats_are_listed_and_add_up(visitor):
    """Available, reserved and confirmed are the quota."""
    assert re.search(r"c1 a 500.00 2 0", words(visitor.get("/seats")))
    shown = words(visitor.get("/seats/c1"))
    assert re.search(r"a 500.00 2 0 2 0", shown)
    assert "do not add up" not in shown
    assert visitor.get("/seats/c2").status_code == 404


def test_readers_are_led_to_a_new_version_and_back(world, visitor, count):
    """Once, by what the person saw, with a reason in the audit."""
    assert "No migration is at work" in words(visitor.get("/migration/orders"))
    migration = Migration(ORDER_MODEL, 2, world.own.views, pause=lambda _seconds: None)
    migration.start()
    assert "sluice migrate verify orders --to 2" in words(visitor.get("/migration/orders"))
    assert migration.verify().is_right
    form = Form(visitor, "/migration/orders", "Switch orders to version 2")
    assert form.send(why="").status_code == 400
    assert form.send().status_code == 303
    assert (migration.read().current, form.send().status_code) == (2, 409)
    world.clock.moment += timedelta(seconds=1)
    back = Form(visitor, "/migration/orders", "Roll orders back")
    assert back.send().status_code == 303
    assert migration.read().current == 1
    again = Form(visitor, "/migration/orders", "Switch orders")
    migration.switch()
    refused = again.send()
    assert (refused.status_code, "decide again" in refused.text) == (409, True)
    reply, requests = count(lambda: visitor.get("/migrations"))
    assert (re.search(r"orders 2 switched 2", words(reply)) is not None, requests) == (True, 2)
    acts = world.stores.audit.newest(f"{world.clock.now():%Y-%m}", 10, about="orders 2")
    assert [one.act.what for one in reversed(acts)] == ["migrate switch", "migrate rollback"]
    assert visitor.get("/migration/nothing").status_code == 404


def test_without_registration_no_page_is_there(house):
    """Neither in the navigation."""
    visitor = house.visitor()
    assert visitor.get("/orders").status_code == 404
    assert "Migrations" not in visitor.get("/").text
