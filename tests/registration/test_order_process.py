"""The process of an order: every state with every message, generations, money, and the rows that it is kept in."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from capabilities.registration import documents
from capabilities.registration.documents import (
    DUE,
    NOON,
    PROCESS,
    SEATS,
    TOTAL,
    expire,
    follow,
    messages,
    pay,
    place,
    refuse,
    reserve,
    start,
    states,
    update,
)
from capabilities.registration.order import OrderPhase, fold_order
from capabilities.registration.order_messages import NewOrder, PaymentOutcome, StartOrder, incoming, read_reply
from capabilities.registration.order_process import MOST_SKIPPED, OrderProcessState, OrderStage, believe_held, is_stuck
from capabilities.registration.reasons import OrderReason
from shared.errors import LaterFormatError, RefusedError
from shared.processes import Event, Head, Home, Incoming, ReplyClass, Timeout, restore_process, store_process

#: The table of the design, in the words of the table of the page; by message, then by the states in their order.
TABLE = {
    "placed (again)": ["awaiting, *reserve 1*", *["duplicate"] * 7],
    "started": ["unexpected", "awaiting, *reserve 1*", *["duplicate"] * 6],
    "changed": [
        "`unknown_order`",
        "totals anew",
        "awaiting, *reserve 2*",
        "awaiting, *reserve 2*",
        "`order_paid`",
        "`order_paid`",
        "`order_rejected`",
        "`order_expired`",
    ],
    "all seats": [
        *["unexpected"] * 2,
        "reserved",
        "duplicate",
        "confirmed, *confirm 2*",
        "stale",
        "duplicate",
        "stale",
    ],
    "some seats": [*["unexpected"] * 2, "reserved", "duplicate", "reserved, unsettled", "stale", "duplicate", "stale"],
    "no seat": [*["unexpected"] * 2, "rejected", "duplicate", "reserved, unsettled", "stale", "duplicate", "stale"],
    "unknown type": [
        *["unexpected"] * 2,
        "rejected, *cancel 2*",
        "duplicate",
        "rejected, *cancel 2*, unsettled",
        "stale",
        "duplicate",
        "stale",
    ],
    "paid, the total": ["`unknown_order`", "unsettled", "paid", "confirmed, *confirm 2*", *["unsettled"] * 4],
    "paid, another amount": ["`unknown_order`", "unsettled", "paid", *["unsettled"] * 5],
    "payment rejected": ["`unknown_order`", *["noted"] * 4, "unsettled", "noted", "noted"],
    "expiry is due": [
        "stale",
        "stale",
        "expired, *cancel 2*",
        "expired, *cancel 2*",
        "expired, *cancel 2*, unsettled",
        *["stale"] * 3,
    ],
}


def decide(state, message, now=NOON):
    """Return the decision."""
    return PROCESS.decide(state, message, now)


def kinds(decision):
    """Return the kinds of its events."""
    return [event.kind for event in decision.own]


def refused(state, message, now=NOON):
    """Return the reason of the refusal."""
    with pytest.raises(RefusedError) as found:
        decide(state, message, now)
    return found.value.reason


def test_every_state_takes_every_message_as_the_design_says():
    """All rows and columns of its table."""
    _, rows = documents.table()
    assert {name: cells for name, *cells in rows} == TABLE


@pytest.mark.parametrize("name", states())
def test_a_decision_leaves_the_state_that_its_events_and_its_row_give(name):
    """What the runtime loads the next time is what was decided; a decision without events changes nothing."""
    before = states()[name]
    for message, now in messages(before).values():
        try:
            decision = decide(before, message, now)
        except RefusedError:
            continue
        order = before.order
        for event in decision.own:
            order = fold_order(order, event)
        assert decision.state.order == order
        home = Home(key="order-a", head=Head(), process=store_process(PROCESS, decision.state, decision.commands))
        restored, unsent = restore_process(PROCESS, home)
        assert replace(restored, order=order, inbox=decision.state.inbox) == decision.state
        assert unsent == decision.commands
        assert {**before.inbox, **decision.inbox} == decision.state.inbox
        if not decision.own:
            assert (decision.state, decision.commands, decision.timeouts, decision.inbox) == (before, (), (), {})


def test_the_home_restores_the_process():
    """Its events, its row and its inbox; a home without a row is a held order."""
    first, second = decide(OrderProcessState(), place()), decide(follow(place()), pay())
    events = tuple(replace(event, version=number) for number, event in enumerate((*first.own, *second.own), 1))
    home = Home(key="order-a", head=Head(), events=events, inbox=second.inbox)
    stored = replace(home, process=store_process(PROCESS, second.state, ()))
    assert restore_process(PROCESS, stored) == (second.state, ())
    held = decide(OrderProcessState(), place(is_held=True))
    assert restore_process(PROCESS, replace(home, events=held.own, inbox={}))[0] == held.state
    assert restore_process(PROCESS, None) == (OrderProcessState(), ())


class Renamed:
    """A process of format 2, whose row of format 1 had another name for its stage."""

    format = 2
    upgrade = staticmethod(lambda row, format_: {"stage": row["step"], "from": format_})
    restore = staticmethod(lambda row, home: row)
    store = staticmethod(lambda state: state)


def test_a_row_of_an_earlier_format_is_upgraded_and_a_later_one_is_left_alone():
    """The next write stores it in the format of today."""
    row = {"format": 1, "state": {"step": "paid"}, "commands": []}
    state, _ = restore_process(Renamed(), Home(key="order-a", head=Head(), process=row))
    assert state == {"stage": "paid", "from": 1}
    assert store_process(Renamed(), state, ()) == {"format": 2, "state": state, "commands": []}
    with pytest.raises(LaterFormatError, match="format 3"):
        restore_process(Renamed(), Home(key="order-a", head=Head(), process={**row, "format": 3}))
    with pytest.raises(LaterFormatError, match=r"order_expired.*format 2"):
        fold_order(None, Event(kind="order_expired", body={}, at=NOON, format=2))
    with pytest.raises(LaterFormatError, match="order_moved"):
        fold_order(None, Event(kind="order_moved", body={}, at=NOON))


def test_a_new_order_has_its_prices_totals_command_and_timeout():
    """Two events, a reserve that the bus may drop after the window, and the due time behind the buffer."""
    decision = decide(OrderProcessState(), place(seats={"full": 2, "free": 1}))
    assert kinds(decision) == ["order_placed", "order_totals_calculated"]
    assert decision.own[1].body == {
        "lines": {
            "free": {"seats": 1, "price": "0.00", "amount": "0.00"},
            "full": {"seats": 2, "price": "500.00", "amount": "1000.00"},
        },
        "total": "1000.00",
    }
    (command,) = decision.commands
    assert (command.to, command.kind, command.generation) == ("seats-c", "reserve_seats", 1)
    assert command.not_after == decision.state.order.expires_at == NOON + PROCESS.window
    assert decision.timeouts == (Timeout("expire", DUE),)
    assert decision.state.order.phase is OrderPhase.PLACED


def test_totals_are_exact():
    """Where binary fractions would be off by a cent."""
    body = NewOrder(order="a", number=1, conference="c", seats={"x": 20}, prices={"x": Decimal("999999999.99")})
    assert decide(OrderProcessState(), incoming(body, NOON)).state.order.total == Decimal("19999999999.80")


def test_an_order_takes_no_more_seats_than_allowed_and_no_unknown_type():
    """At its placing and at a change; the limit itself is taken."""
    most = {"full": PROCESS.most_seats}
    assert decide(OrderProcessState(), place(seats=most)).commands
    for seats, reason in (({"full": PROCESS.most_seats + 1}, "too_many_seats"), ({"vip": 1}, "unknown_seat_type")):
        assert refused(OrderProcessState(), place(seats=seats)) == reason
        assert refused(follow(place()), update(follow(place()), seats=seats)) == reason


def test_a_window_ends_on_a_whole_second():
    """As the rows of timeouts do: a row whose due time differs from the stored one is removed."""
    body = place().body
    late = Incoming(kind="place", body=body, at=NOON + timedelta(microseconds=1))
    (timeout,) = decide(OrderProcessState(), late).timeouts
    assert timeout.due == DUE + timedelta(seconds=1)


def test_an_order_that_comes_after_its_window_is_rejected_at_once():
    """Nothing is reserved, and nothing is due."""
    late = decide(OrderProcessState(), place(), NOON + PROCESS.window + timedelta(seconds=1))
    assert (kinds(late)[-1], late.state.order.reason) == ("order_rejected", "window_over")
    assert (late.commands, late.timeouts, late.state.stage) == ((), (), OrderStage.COMPLETED)
    assert decide(late.state, reserve(1, SEATS)).reply is ReplyClass.UNEXPECTED


def test_a_held_order_starts_without_being_read():
    """The decision on the believed home is the decision on the real one, at the same version."""
    held = follow(place(is_held=True))
    assert (held.order.phase, held.stage, held.due) == (OrderPhase.HELD, OrderStage.NOT_STARTED, None)
    home = believe_held(StartOrder(order="a", number=1, conference="c", seats=SEATS), NOON)
    believed, _ = restore_process(PROCESS, home)
    real, blind = decide(held, start()), decide(believed, start())
    assert (blind.own, blind.commands, blind.timeouts) == (real.own, real.commands, real.timeouts)
    assert PROCESS.store(blind.state) == PROCESS.store(real.state)
    assert home.head.version == held.order.stream_version
    assert blind.state.order.stream_version == real.state.order.stream_version


def test_a_change_of_a_held_order_waits_too():
    """New totals, no command; its start reserves the new seats."""
    held = follow(place(is_held=True))
    changed = decide(held, update(held, seats={"full": 1}))
    assert (kinds(changed), changed.commands) == (["order_updated", "order_totals_calculated"], ())
    assert (changed.state.order.phase, changed.state.order.total) == (OrderPhase.HELD, Decimal("500.00"))
    assert decide(changed.state, start()).commands[0].body["seats"] == {"full": 1}


def test_an_answer_counts_only_for_the_last_command():
    """After a change, the answer to the first reserve is stale, and one that was never sent for is unexpected."""
    changed = follow(place(), update(follow(place()), seats={"full": 1}))
    old = decide(changed, reserve(1, SEATS))
    assert (old.reply, kinds(old), old.state.stage) == (ReplyClass.STALE, ["reply_skipped"], OrderStage.AWAITING)
    assert old.own[0].body == {"reply": "stale", "message": "seats_reserved"}
    assert not old.own[0].is_public
    new = decide(changed, reserve(3, SEATS))
    assert (new.reply, new.own, new.state) == (ReplyClass.UNEXPECTED, (), changed)
    assert decide(changed, reserve(0, SEATS)).reply is ReplyClass.UNEXPECTED
    assert decide(changed, reserve(2, {"full": 1})).state.order.phase is OrderPhase.RESERVED


def test_only_the_first_skipped_replies_are_stored():
    """A storm of doubles does not fill the home. Each is still classified."""
    state = follow(place(), reserve(1, SEATS))
    for _ in range(MOST_SKIPPED):
        state = decide(state, reserve(1, SEATS)).state
    decision = decide(state, reserve(1, SEATS))
    assert (decision.reply, decision.own, decision.state) == (ReplyClass.DUPLICATE, (), state)


def test_skipped_replies_leave_the_version_that_customers_see():
    """An ETag changes with the order only."""
    state = follow(place(), reserve(1, SEATS))
    skipped = decide(state, reserve(1, SEATS)).state
    assert skipped.order.stream_version == state.order.stream_version + 1
    assert skipped.order.version == state.order.version == state.order.stream_version


def test_some_seats_have_their_own_total_and_are_paid_by_it():
    """The total of all confirms nothing then."""
    partial = follow(place(), reserve(1, {"full": 1}))
    assert (partial.order.phase, partial.order.total) == (OrderPhase.PARTIALLY_RESERVED, Decimal("500.00"))
    assert decide(partial, pay()).state.order.unsettled[0].reason == "amount_differs"
    paid = decide(partial, pay(amount=Decimal("500.00")))
    assert kinds(paid) == ["payment_received", "order_confirmed"]
    assert paid.own[1].body == {"seats": {"full": 1}, "total": "500.00"}


def test_a_changed_order_without_seats_stays_and_cannot_be_paid():
    """A total of nothing is not paid by nothing. The customer may change it again, or it expires."""
    changed = follow(place(), update(follow(place())), reserve(2, {"full": 0}))
    assert (changed.stage, changed.order.phase) == (OrderStage.RESERVED, OrderPhase.PARTIALLY_RESERVED)
    assert changed.order.total == 0
    assert decide(changed, pay(amount=Decimal("0.00"))).state.stage is OrderStage.RESERVED
    assert decide(changed, update(changed, "u2")).commands[0].generation == 3


def test_a_free_order_needs_no_payment():
    """Only if it has all its seats; some of them are confirmed by a payment of nothing."""
    free = place(seats={"free": 2})
    confirmed = decide(follow(free), reserve(1, {"free": 2}))
    assert kinds(confirmed) == ["order_reserved", "order_confirmed"]
    assert [command.kind for command in confirmed.commands] == ["confirm_seats"]
    some = follow(free, reserve(1, {"free": 1}))
    assert some.order.phase is OrderPhase.PARTIALLY_RESERVED
    assert decide(some, pay(amount=Decimal("0.00"))).state.order.phase is OrderPhase.CONFIRMED


def test_a_free_order_that_was_paid_is_confirmed_and_the_payment_is_left_to_a_person():
    """Nothing that was paid too much is lost."""
    decision = decide(follow(place(seats={"free": 2}), pay()), reserve(1, {"free": 2}))
    assert (decision.state.order.phase, decision.state.order.paid) == (OrderPhase.CONFIRMED, None)
    assert [one.amount for one in decision.state.order.unsettled] == [TOTAL]


def test_a_payment_counts_once_by_its_id():
    """The same content is a duplicate, another one is refused; in every stage after it."""
    for state in (states()["paid"], states()["confirmed"], follow(place(), pay(), expire())):
        assert decide(state, pay()).reply is ReplyClass.DUPLICATE
        assert refused(state, pay(amount=Decimal("1.00"))) == OrderReason.ID_DIFFERS
        assert refused(state, pay(outcome=PaymentOutcome.REJECTED)) == OrderReason.ID_DIFFERS


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("held", "held"),
        ("paid", "second_payment"),
        ("confirmed", "already_confirmed"),
        ("rejected", "already_rejected"),
        ("expired", "already_expired"),
    ],
)
def test_an_unsettled_payment_says_why(state, reason):
    """With its id, amount and time, for the person who settles it."""
    (unsettled,) = decide(states()[state], pay("p9")).state.order.unsettled
    assert (unsettled.id, unsettled.amount, unsettled.at, unsettled.reason) == ("p9", TOTAL, NOON, reason)


def test_a_change_counts_once_and_for_its_version_only():
    """The same request again is a duplicate, also when prices moved; another version is refused."""
    first = follow(place())
    asked = update(first, seats={"full": 1})
    changed = decide(first, asked).state
    moved = Incoming(kind="update", body={**asked.body, "prices": {"full": "9.00"}}, at=NOON, id=asked.id)
    assert decide(changed, asked).reply is decide(changed, moved).reply is ReplyClass.DUPLICATE
    assert refused(changed, replace(asked, id="u2")) == OrderReason.VERSION_DIFFERS
    assert refused(changed, update(changed, "u1", {"full": 3})) == OrderReason.ID_DIFFERS
    late = NOON + PROCESS.window + timedelta(seconds=1)
    assert refused(changed, update(changed, "u3"), late) == OrderReason.ORDER_EXPIRED


def test_prices_stay_those_of_the_placing():
    """A new type has the price of today."""
    first = follow(place())
    body = {"version": first.order.version, "seats": {"full": 1, "vip": 1}, "prices": {"full": "9.00", "vip": "1.50"}}
    changed = decide(first, Incoming(kind="update", body=body, at=NOON, id="u1")).state
    assert changed.order.total == Decimal("501.50")
    for number, seats in enumerate(({"vip": 1}, {"full": 1}), 2):
        body = {"version": changed.order.version, "seats": seats, "prices": {"full": "9.00", "vip": "9.00"}}
        changed = decide(changed, Incoming(kind="update", body=body, at=NOON, id=f"u{number}")).state
    assert changed.order.total == Decimal("500.00")


def test_expiry_comes_at_its_stored_time_only():
    """A row of another time is removed, an early one waits, and another buffer changes nothing."""
    state = states()["reserved"]
    earlier = expire(DUE - timedelta(minutes=1))
    assert decide(state, earlier, DUE).dropped == (Timeout("expire", earlier.at),)
    early = decide(state, expire(), DUE - timedelta(seconds=1))
    assert (early.own, early.dropped, early.state) == ((), (), state)
    patient = replace(PROCESS, buffer=timedelta(hours=1))
    expired = patient.decide(state, expire(), DUE)
    assert (expired.state.order.phase, expired.dropped) == (OrderPhase.EXPIRED, (Timeout("expire", DUE),))
    assert expired.state.order.reserved == {}
    (command,) = expired.commands
    assert (command.kind, command.generation, command.not_after) == ("cancel_seats", 2, None)


@pytest.mark.parametrize("name", ["confirmed", "rejected"])
def test_an_order_that_ends_drops_its_timeout(name):
    """Its row in the agenda goes with the note."""
    last = {"confirmed": (follow(place(), reserve(1, SEATS)), pay()), "rejected": (follow(place()), refuse(1))}[name]
    assert decide(*last).dropped == (Timeout("expire", DUE),)


def test_an_order_is_stuck_two_ticks_after_its_due_time():
    """Only one that runs: a held one waits for its gate, and one that ended is done."""
    late = DUE + timedelta(minutes=2)
    found = {name for name, state in states().items() if is_stuck(state, late + timedelta(seconds=1))}
    assert found == {"awaiting", "reserved", "paid"}
    assert not is_stuck(states()["awaiting"], late)


def test_events_name_the_message_that_caused_them():
    """For the causal story: the sender's id, or the command that an answer answers, with its generation."""
    state = follow(place())
    answered = decide(state, reserve(1, SEATS))
    assert {(event.command, event.generation) for event in answered.own} == {("command", 1)}
    assert {event.command for event in decide(answered.state, pay("p7")).own} == {"p7"}
    assert {event.command for event in decide(state, update(state, "u7")).own} == {"u7"}


def test_a_reply_leads_to_its_order():
    """An event of seats that answers no order leads nowhere."""
    answer = Event(kind="seats_reserved", body={"order": "a", "granted": {}}, at=NOON, command="c9", generation=4)
    home, message = read_reply(answer)
    assert (home, message.kind, message.generation, message.id) == ("order-a", "seats_reserved", 4, "c9")
    assert read_reply(replace(answer, kind="reservation_cancelled")) is None
