"""Registration end to end, over Azurite and the broker, without a host."""

from decimal import Decimal

from shared.registration import PlaceOrder, check_balance


def place(world, order, seats=1, **fields):
    """Place an order for seats."""
    return world.verbs.place(PlaceOrder(order=order, conference="c1", seats={"a": seats}, **fields))


def open_conference(world, quota=2):
    """Make a conference with one seat type."""
    world.take("conference", id="k1", conference="c1", seats={"a": {"price": "500.00", "quota": quota}})
    world.pump()


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
    assert world.rows() == []
