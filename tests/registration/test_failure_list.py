"""The failures that the source lists for its process manager, each on real storage and a real bus.

docs/appendix/registration.md says which test shows which of them.
"""

import re

import pytest

from capabilities.registration.entities import ORDER_EVENTS
from capabilities.registration.order import order_home
from capabilities.registration.seats import check_balance
from shared.processes import BusPublisher, TableHomes
from tests.registration.test_flows import open_conference, place
from tests.registration.world import LANE
from tests.waiting import until
from tools.local.paths import ROOT


class Ended(BaseException):
    """The process ends here."""


def end_once(monkeypatch, owner, name, when):
    """Have the process end at the first such call: nothing of it happens."""
    whole, ended = getattr(owner, name), []

    def end(self, *given):
        if not ended and when(*given):
            ended.append(True)
            raise Ended
        return whole(self, *given)

    monkeypatch.setattr(owner, name, end)


def end_at_save(monkeypatch, order="order-1"):
    """Have the process end before it saves an order."""
    end_once(monkeypatch, TableHomes, "commit", lambda commit: commit.home == order_home(order))


def end_at_send(monkeypatch, name):
    """Have the process end before it sends anything to this entity of the bus."""
    end_once(monkeypatch, BusPublisher, "send", lambda parcels: any(each.to.name == name for each in parcels))


def check_sold(world, order="order-1"):
    """Pay the order, and let all windows pass: it has its one seat, once, and nothing is left to do."""
    world.pump()
    assert (world.order(order).phase, world.seats("c1").types["a"].reserved) == ("reserved", 1)
    world.take("payment", id="p1", order=order, outcome="completed", amount="500.00")
    world.pump()
    world.tick(seconds=1000)
    world.pump()
    state = world.seats("c1")
    assert world.order(order).phase == "confirmed"
    assert (state.types["a"].available, state.types["a"].reserved, state.types["a"].confirmed) == (1, 0, 1)
    assert check_balance(state) == []
    assert world.parked() == []
    until(lambda: world.rows() == [])


def test_a_crash_before_the_state_is_saved(world, monkeypatch):
    """The answer of the seats comes again."""
    open_conference(world)
    place(world, "order-1")
    end_at_save(monkeypatch)
    with pytest.raises(Ended):
        world.pump()
    world.restart()
    check_sold(world)


def test_a_customer_whose_order_was_not_saved_sends_it_again(world, monkeypatch):
    """Nothing of the first try is left."""
    open_conference(world)
    end_at_save(monkeypatch)
    with pytest.raises(Ended):
        place(world, "order-1")
    world.restart()
    assert world.own.orders.find("order-1") is None
    place(world, "order-1")
    check_sold(world)


def test_a_crash_after_the_save_and_before_the_send(world, monkeypatch):
    """The answer of the seats comes again, changes nothing, and has what is unsent sent."""
    open_conference(world)
    place(world, "order-1")
    end_at_send(monkeypatch, ORDER_EVENTS)
    with pytest.raises(Ended):
        world.pump()
    world.restart()
    assert world.order("order-1").phase == "placed"
    check_sold(world)


def test_a_command_that_was_not_sent_before_a_crash_is_sent_when_the_order_comes_again(world, monkeypatch):
    """The order is stored, and its command with it."""
    open_conference(world)
    end_at_send(monkeypatch, LANE)
    with pytest.raises(Ended):
        place(world, "order-1")
    world.restart()
    assert world.pump() == 0
    assert world.order("order-1").phase == "placed"
    place(world, "order-1")
    check_sold(world)


def test_a_command_that_was_not_sent_before_a_crash_is_sent_by_the_tick(world, monkeypatch):
    """Nobody asks again."""
    open_conference(world)
    end_at_send(monkeypatch, LANE)
    with pytest.raises(Ended):
        place(world, "order-1")
    world.restart()
    world.tick(seconds=61)
    check_sold(world)


def test_the_cancel_of_an_expired_order_that_was_not_sent_is_sent_by_the_tick(world, monkeypatch):
    """Until then, the order is expired and its seat is held."""
    open_conference(world)
    place(world, "order-1")
    world.pump()
    end_at_send(monkeypatch, LANE)
    with pytest.raises(Ended):
        world.tick(seconds=961)
    world.restart()
    world.pump()
    assert world.seats("c1").types["a"].reserved == 1
    world.tick(seconds=61)
    world.pump()
    assert world.order("order-1").phase == "expired"
    assert world.seats("c1").types["a"].available == 2
    world.tick(seconds=121)
    until(lambda: world.rows() == [])


def test_what_is_not_marked_as_processed_comes_again_and_changes_nothing(world):
    """Orders, commands, answers and views: each is handled three times."""
    open_conference(world)
    for order in ("order-1", "order-2"):
        place(world, order)
        for _ in range(3 if order == "order-1" else 0):
            world.deliver(is_marked=False)
            world.restart()
        world.pump()
    doubled, single = (world.order(order) for order in ("order-1", "order-2"))
    assert (doubled.phase, doubled.version) == (single.phase, single.version) == ("reserved", single.version)
    world.tick(seconds=1000)
    world.pump()
    assert world.seats("c1").types["a"].available == 2
    until(lambda: world.rows() == [])


def test_an_answer_that_never_comes_ends_with_the_window(world):
    """The process waits no longer than that, and the seat that was granted goes back."""
    open_conference(world)
    place(world, "order-1")
    world.sell()
    assert world.seats("c1").types["a"].reserved == 1
    assert world.lose("hear") == 1
    world.pump()
    assert world.order("order-1").phase == "placed"
    world.tick(seconds=961)
    world.pump()
    assert world.order("order-1").phase == "expired"
    assert world.seats("c1").types["a"].available == 2
    world.tick(seconds=121)
    until(lambda: world.rows() == [])


def test_a_payment_after_the_expiry_is_left_to_a_person(world):
    """It is kept with the order, and sells nothing."""
    open_conference(world)
    place(world, "order-1")
    world.pump()
    world.tick(seconds=961)
    world.pump()
    world.take("payment", id="p1", order="order-1", outcome="completed", amount="500.00")
    world.pump()
    found = world.order("order-1")
    assert (found.phase, [one.reason for one in found.unsettled]) == ("expired", ["already_expired"])
    types = world.seats("c1").types["a"]
    assert (types.available, types.reserved, types.confirmed) == (2, 0, 0)


def test_the_page_names_a_test_for_each_failure():
    """No row of its table is a promise."""
    page = (ROOT / "docs" / "appendix" / "registration.md").read_text()
    table = page[page.index("## Failures") : page.index("## Orders: states and messages")]
    named = re.findall(r"`(test_\w+)`", table)
    sources = [(ROOT / "tests" / "registration" / f"test_{name}.py").read_text() for name in ("failure_list", "flows")]
    assert len(named) == table.count("\n| ") - 2
    assert [name for name in named if not any(f"def {name}(world" in source for source in sources)] == []
