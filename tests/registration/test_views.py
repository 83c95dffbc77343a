"""The views of registration: rows that say what the home says, whichever way the events came, and what a read costs."""

import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest

from capabilities.registration import order as bodies
from capabilities.registration.conference_views import ConferenceViews, OrderViews, SeatTypeView, fold_home
from capabilities.registration.order import OrderPhase, calculate, event_of, fold_order, order_home
from capabilities.registration.order_messages import seats_home
from capabilities.registration.views import CONFERENCE_MODEL, ORDER_MODEL, state_of
from shared.azure.meter import tally_requests
from shared.processes import Commit, EventRange, decode_events
from shared.readmodels import KeptAnswers, Slot
from tests.readmodels.conftest import House
from tests.readmodels.test_projector import operations

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
PRICES = {"a": Decimal("5.00"), "b": Decimal("7.50")}


def placed(order, number):
    """Return the events of a new order."""
    body = bodies.OrderPlaced(order, number, "conf1", {"a": 2, "b": 1}, PRICES, NOON + timedelta(minutes=15))
    return [body, calculate(body.seats, PRICES)]


#: What may follow, in any order: the view is not to decide, it is to show.
LATER = [
    bodies.OrderUpdated({"a": 1}, {}),
    bodies.OrderPartiallyReserved({"a": 1, "b": 0}),
    bodies.OrderReserved({"a": 2, "b": 1}),
    bodies.PaymentReceived("pay-1", Decimal("17.50")),
    bodies.PaymentUnsettled("pay-2", Decimal("3.00"), "late"),
    bodies.ReplySkipped("seats_reserved", "stale"),
    bodies.OrderRejected("sold_out"),
    bodies.OrderConfirmed({"a": 2, "b": 1}, Decimal("17.50")),
    bodies.OrderExpired(),
    bodies.PaymentRejected("pay-3"),
]


class Aliases:
    """Numbers of orders in memory."""

    def __init__(self):
        self.homes = {}

    def find(self, number):
        """Return the home."""
        return self.homes.get(number)


@pytest.fixture
def orders(stack_settings):
    """Homes of orders, and their views."""
    made = House(stack_settings, ORDER_MODEL)
    made.aliases = Aliases()
    yield made
    made.close()


@pytest.fixture
def conferences(stack_settings):
    """Homes of conferences, and their views."""
    made = House(stack_settings, CONFERENCE_MODEL)
    yield made
    made.close()


def happen(house, home, *bodies_of, **fields):
    """Have events happen in a home, and return their range as a message brings it."""
    head = house.homes.read_head(home)
    expected = head.version if head else 0
    events = tuple(event_of(body, NOON + timedelta(seconds=expected)) for body in bodies_of)
    house.homes.commit(Commit(home=home, aggregate="order", expected=expected, events=events, fields=fields or None))
    stored = house.homes.read_tail(home, expected)
    some = EventRange(home, stored[0].version, stored[-1].version, tuple(one for one in stored if one.is_public))
    body = msgspec.json.encode({"sluice": {"v": 1, "kind": "events", "streams": [some]}})
    (read,) = decode_events(body)
    return read


def views(house, process=None):
    """Return a reader of orders in a new process."""
    process = process or house.process()
    return OrderViews(process.reader, house.homes, house.aliases, house.clock)


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_both_versions_are_the_fold_of_the_home(orders, seed):
    """Random histories in messages that double and overtake each other: both versions show what the order's home says."""
    rng = random.Random(seed)
    process = orders.process()
    orders.own.migration().start()
    bag = []
    for number in range(1, 9):
        home = order_home(f"o{number}")
        bag += [happen(orders, home, *placed(f"o{number}", number), number=number)]
        bag += [happen(orders, home, rng.choice(LATER)) for _ in range(rng.randint(0, 6))]
    bag += rng.sample(bag, len(bag) // 3)
    rng.shuffle(bag)
    while bag:
        process.projector.project(bag[:3])
        bag = bag[3:]
    for number in range(1, 9):
        state = None
        for event in orders.homes.read_tail(order_home(f"o{number}"), 0):
            state = fold_order(state, event)
        for slot, version in ((Slot.A, 1), (Slot.B, 2)):
            ((key, _, view),) = orders.rows(slot, version)[order_home(f"o{number}")]
            assert replace(state_of(view), stream_version=state.stream_version, skipped=state.skipped) == state
            assert key == (f"o{number}" if version == 1 else f"{number:012}")
            assert view.get("placed_at") == (None if version == 1 else "2026-11-22T12:00:00Z")
    assert orders.own.migration().verify().is_right


def test_an_order_is_found_by_its_id_and_its_number_in_each_version(orders):
    """The requests: one for the row, one more for the alias or, in version 2, for the number of an id."""
    one = happen(orders, order_home("o1"), *placed("o1", 17), number=17)
    orders.process().projector.project([one])
    orders.aliases.homes[17] = order_home("o1")
    reading = views(orders)
    reading.find("o1")
    with tally_requests() as tally:
        by_order, by_number = reading.find("o1"), reading.find_numbered(17)
    assert by_order == by_number
    assert (by_order.order.number, by_order.order.total, by_order.placed_at) == (17, Decimal("17.50"), None)
    # The alias and the head are in memory here.
    assert operations(tally) == {"QueryEntity readmodela": 2}
    for step in ("start", "verify", "switch"):
        getattr(orders.own.migration(), step)()
    orders.aliases.homes.clear()
    reading = views(orders)
    reading.find("o1")
    with tally_requests() as tally:
        assert reading.find("o1") == reading.find_numbered(17)
    assert reading.find("o1").placed_at == NOON
    assert operations(tally) == {"QueryEntity readmodelb": 2}


def test_an_order_without_a_row_is_read_from_its_home(orders):
    """It is readable when it is stored. Private events change nothing of it."""
    happen(orders, order_home("o1"), *placed("o1", 17), bodies.ReplySkipped("expire", "stale"), number=17)
    orders.aliases.homes[17] = order_home("o1")
    found = views(orders).find("o1")
    assert (found.order.phase, found.order.version) == (OrderPhase.PLACED, 2)
    assert views(orders).find_numbered(17) == found
    assert fold_home(orders.homes.read_tail(order_home("o1"), 0))["version"] == 2


def test_an_unknown_order_and_a_number_that_was_drawn_in_vain_are_none(orders):
    """The alias of a lost number leads to no home, or to one with another number."""
    happen(orders, order_home("o1"), *placed("o1", 17), number=17)
    orders.aliases.homes |= {18: order_home("o1"), 19: order_home("o2")}
    reading = views(orders)
    assert [reading.find("o2"), *(reading.find_numbered(number) for number in (18, 19, 20))] == [None] * 4


def test_a_view_holds_no_access_code_and_no_hash_of_one(orders):
    """The head of a home does. A row, which many may read, has only what events say."""
    one = happen(orders, order_home("o1"), *placed("o1", 17), number=17, code_hash="canary", salt="canary")
    orders.process().projector.project([one])
    assert "canary" not in json.dumps(orders.rows(Slot.A, 1))


def conference_events():
    """Return what happens to a conference, and what a reader sees at the end."""
    offer = {"a": bodies.Offer(PRICES["a"], 10, 10), "b": bodies.Offer(PRICES["b"], 5, 5)}
    until = NOON + timedelta(minutes=15)
    dearer = {"a": bodies.Offer(Decimal("6.00"), 12, 5)}
    return [
        bodies.ConferenceSet(offer),
        bodies.SeatsReserved("o1", {"a": 3}, {"a": 7}, until),
        bodies.SeatsReserved("o2", {"a": 4, "b": 2}, {"a": 3, "b": 3}, until),
        bodies.GenerationKept("o9", until),
        bodies.SeatsAdded({"a": 2}, {"a": 12}, {"a": 5}),
        bodies.ConferenceSet(dearer),
        bodies.ReservationCancelled("o2", {"a": 4, "b": 2}, {"a": 9, "b": 5}, until),
        bodies.ReservationConfirmed("o1", {"a": 3}, {"a": 9}, until),
    ], {"a": SeatTypeView(Decimal("6.00"), 12, 9), "b": SeatTypeView(PRICES["b"], 5, 5)}


@pytest.mark.parametrize("seed", range(3))
def test_events_of_a_conference_in_any_order_make_the_same_view(conferences, seed):
    """Each value is that of the newest event that says it. No gap is read from the log."""
    events, expected = conference_events()
    rng = random.Random(seed)
    bag = [happen(conferences, seats_home("conf1"), event) for event in events]
    bag += rng.sample(bag, 4)
    rng.shuffle(bag)
    process = conferences.process()
    for one in bag:
        process.projector.project([one])
    found = ConferenceViews(process.reader, KeptAnswers(conferences.clock)).find("conf1", timedelta())
    assert (found.value.seats, found.value.version) == (expected, 29)


def test_the_version_of_a_conference_grows_with_every_change_of_what_is_shown(conferences):
    """It is the ETag: also an older event that comes late changes it."""
    events, _ = conference_events()
    first, early, late = (happen(conferences, seats_home("conf1"), event) for event in events[:3])
    process, shown = conferences.process(), []
    for one in (first, late, early, late):
        process.projector.project([one])
        found = ConferenceViews(process.reader, KeptAnswers(conferences.clock)).find("conf1", timedelta()).value
        shown.append((found.version, found.seats))
    assert shown[0][0] < shown[1][0] == shown[2][0] == shown[3][0]
    assert shown[1] == shown[2] == shown[3]


@pytest.mark.parametrize(("drawn", "refuses", "outcomes"), [(0.04, False, ["stale"]), (0.06, True, [])])
def test_one_of_twenty_decisions_by_a_kept_answer_is_checked(conferences, drawn, refuses, outcomes):
    """A kept answer says sold out, and seats came back: the fresh one decides where it is drawn, and is counted."""
    counted = []

    class Counting:
        """Counts what is added."""

        def add(self, metric, _number=1, **attributes):
            """Keep the outcome."""
            counted.append(attributes["outcome"])

    process = conferences.process()
    home = seats_home("conf1")
    process.projector.project(
        [happen(conferences, home, bodies.ConferenceSet({"a": bodies.Offer(PRICES["a"], 300, 0)}))]
    )
    reading = ConferenceViews(process.reader, KeptAnswers(conferences.clock), Counting(), lambda: drawn)

    def is_sold_out(view):
        return not view.seats["a"].remaining

    assert reading.decide("conf1", is_sold_out)
    process.projector.project([happen(conferences, home, bodies.SeatsAdded({"a": 9}, {"a": 309}, {"a": 9}))])
    assert (reading.decide("conf1", is_sold_out), counted) == (refuses, outcomes)


def test_a_conference_is_kept_by_the_ladder(conferences):
    """With more than 200 left, five minutes long no request is made."""
    offer = {"a": bodies.Offer(PRICES["a"], 300, 300)}
    process = conferences.process()
    process.projector.project([happen(conferences, seats_home("conf1"), bodies.ConferenceSet(offer))])
    reading = ConferenceViews(process.reader, KeptAnswers(conferences.clock))
    reading.find("conf1", timedelta(minutes=5))
    conferences.clock.advance(minutes=4)
    with tally_requests() as tally:
        assert reading.find("conf1", timedelta(minutes=5)).is_kept
    assert operations(tally) == {}
    assert not reading.find("conf1", timedelta(seconds=5)).is_kept
