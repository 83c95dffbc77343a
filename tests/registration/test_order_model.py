"""Every interleaving of two orders, one of them changed once, and proof that the search would see each mistake."""

import pytest

from capabilities.registration import order_process, selling
from capabilities.registration.order import OrderPhase
from capabilities.registration.order_process import OrderProcess, OrderProcessState, OrderStage, OrderTurn
from capabilities.registration.seats import KnownReservations, ReservationEnding
from shared.processes import ReplyClass
from tests.registration.order_model import Case, search

pytestmark = pytest.mark.usefixtures("without_garbage_collection")
WANTS = {1: ({"x": 1}, {"x": 1}), 2: ({"x": 1}, {"x": 1}), 3: ({"x": 1}, {"x": 2})}


def case(quota, **changes):
    """Return the case of so many seats: the first order wants two after its update."""
    return Case(quota=quota, wants=WANTS[quota], then={"x": 2}, **changes)


def older_reply_counts(monkeypatch):
    """Mistake 5: a reply is applied whatever it answers."""
    right = order_process.classify

    def wrong(state, generation):
        is_open = state.stage in (OrderStage.AWAITING, OrderStage.PAID)
        return ReplyClass.CURRENT if is_open and generation < state.generation else right(state, generation)

    monkeypatch.setattr(order_process, "classify", wrong)


def seats_ignore_generations(monkeypatch):
    """Mistake 6: a command counts as often as it comes."""
    right = selling.skip_reason

    def wrong(state, command, now):
        skip = right(state, command, now)
        return None if skip is selling.Skip.KNOWN else skip

    monkeypatch.setattr(selling, "skip_reason", wrong)


def tombstone_goes_at_once(monkeypatch):
    """Mistake 7: an ended reservation is forgotten with its end."""
    right = selling._find

    def wrong(state, command, now):
        entry = right(state, command, now)
        return entry if entry and entry.holds_seats else None

    monkeypatch.setattr(selling, "_find", wrong)


def expiry_cancels_paid_seats(monkeypatch):
    """Mistake 11: the expiry of a confirmed order still cancels."""
    right = order_process.expire

    def wrong(turn):
        if turn.order.phase is OrderPhase.CONFIRMED and turn.state.generation == 2:
            turn.cancel()
            return turn.end()
        return right(turn)

    monkeypatch.setattr(order_process, "expire", wrong)


def reserve_counts_after_the_sale(monkeypatch):
    """Mistake 12: a doubled reserve is granted again once its seats are sold."""
    right = selling.skip_reason

    def wrong(state, command, now):
        entry = state.reservations.get(command.order)
        is_sold = entry is not None and entry.ending is ReservationEnding.CONFIRMED
        return None if is_sold and isinstance(command, selling.Reserve) else right(state, command, now)

    monkeypatch.setattr(selling, "skip_reason", wrong)


def nothing_granted_leaves_no_generation(monkeypatch):
    """Mistake 13: a reservation without seats is not noted."""
    right = KnownReservations.put

    def wrong(self, order, entry, now):
        return right(self, order, entry, now) if entry.granted or entry.ending else self

    monkeypatch.setattr(KnownReservations, "put", wrong)


def amount_is_not_compared(monkeypatch):
    """Mistake 21: any payment confirms."""
    monkeypatch.setattr(order_process, "confirms", lambda order, payment: payment is not None and bool(order.reserved))


def duplicate_makes_a_new_process(monkeypatch):
    """Mistake 22: an order that ended and is placed again begins anew."""
    right = OrderProcess._place

    def wrong(self, turn, body):
        if turn.state.order is not None and turn.state.stage is OrderStage.COMPLETED:
            turn.state = OrderProcessState()
        return right(self, turn, body)

    monkeypatch.setattr(OrderProcess, "_place", wrong)


def refused_change_keeps_its_seats(monkeypatch):
    """A change to a type that there is not ends the order, and the seats of before stay reserved."""
    monkeypatch.setattr(order_process, "_end_refused", lambda turn, body: turn.reject(body.reason))


def payment_of_an_expired_order_is_forgotten(monkeypatch):
    """A payment that waited for seats is not left to a person when the order expires."""
    right = OrderTurn.unsettle

    def wrong(self, payment, reason):
        if reason != "expired":
            right(self, payment, reason)

    monkeypatch.setattr(OrderTurn, "unsettle", wrong)


#: Each with the least number of seats at which the search finds it.
MISTAKES = {
    older_reply_counts: 2,
    seats_ignore_generations: 1,
    tombstone_goes_at_once: 1,
    expiry_cancels_paid_seats: 1,
    reserve_counts_after_the_sale: 1,
    nothing_granted_leaves_no_generation: 1,
    amount_is_not_compared: 1,
    duplicate_makes_a_new_process: 1,
    payment_of_an_expired_order_is_forgotten: 1,
}
USED = (
    "reply: current",
    "reply: stale",
    "reply: duplicate",
    "seats: late",
    "seats: known",
    "tombstone used",
    "generation_kept",
    "reservation_confirmed",
    "reservation_cancelled",
    "refused: order_paid",
    "refused: order_expired",
)


@pytest.mark.parametrize("quota", WANTS)
@pytest.mark.parametrize(
    ("doubles", "least"), [(1, 25_000), pytest.param(2, 50_000, marks=pytest.mark.ci("a model above 50,000 states"))]
)
def test_no_interleaving_leaks_oversells_or_loses_a_seat(quota, doubles, least):
    """Doubles, among them crashes after the effects, in any order; one payment, one change, clocks that differ.

    One double shows each mistake of this page. Two are searched in CI.
    """
    found, used = search(case(quota, doubles=doubles, payments=(1, 0)))
    assert (found.harm, found.way) == ("", ())
    assert found.states > least
    assert {name: used[name] for name in USED if not used[name]} == {}
    assert used["reply: unexpected"] == 0


def test_nothing_is_harmed_when_both_orders_are_paid_and_a_message_is_lost():
    """A payment of each, and the loss of a reserve, a reply or a payment."""
    found, _ = search(case(2, doubles=0, losses=1))
    assert (found.harm, found.way) == ("", ())
    assert found.states > 30_000


def test_generations_may_be_forgotten_ten_minutes_after_the_window():
    """What comes later than that changes nothing."""
    found, used = search(case(1, doubles=1, losses=0, payments=(1, 0), forgets=True))
    assert (found.harm, found.way) == ("", ())
    assert used["seats: forgotten"] > 0


def test_a_change_to_an_unknown_type_ends_the_order_and_frees_its_seats(monkeypatch):
    """Also if it was paid in the meantime. Without the cancel, seats leak."""
    unknown = Case(quota=2, then={"y": 1}, doubles=1, losses=0, payments=(1, 0))
    found, used = search(unknown)
    assert (found.harm, used["reservation_refused"] > 0) == ("", True)
    refused_change_keeps_its_seats(monkeypatch)
    assert search(unknown)[0].harm


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_the_search_sees_a_mistake(mistake, monkeypatch):
    """Each rule is there for a reason: without it, some interleaving does harm."""
    mistake(monkeypatch)
    assert search(case(MISTAKES[mistake], doubles=1, losses=0, payments=(1, 0)))[0].harm


def test_one_seat_alone_would_hide_a_mistake(monkeypatch):
    """So one, two and three seats are searched."""
    older_reply_counts(monkeypatch)
    assert search(case(1, doubles=1, losses=0, payments=(1, 0)))[0].harm == ""
