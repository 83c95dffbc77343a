"""What an operator of registration types and is told: the page's commands, the seats that are checked, what is counted."""

import json
import re
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from azure.data.tables import UpdateMode
from typer.testing import CliRunner

from capabilities.registration import SEATS_CHECKED_AT, events as order_events
from capabilities.registration.access_codes import MANY, WrongCodes
from capabilities.registration.order import PaymentUnsettled, event_of
from capabilities.registration.order_messages import seats_home, send_to
from capabilities.registration.seat_flows import SeatCheck, SkippedCommands, decide_command
from capabilities.registration.seats import KEPT_FOR, Seats
from capabilities.registration.selling import Skip, decide
from capabilities.registration.views import tell_unsettled
from shared.clock import SystemClock
from shared.processes import Commit, EventRange, Mementos, event_parcels, message_of
from shared.processes.table_homes import event_key
from shared.watch import TickNeeds
from tests.eventsourcing.memory_homes import MemoryHomes
from tests.registration.test_flows import TOPIC, open_conference, place
from tests.registration.test_seats import END, NOON, cancel, conference, follow, offer, reserve
from tests.registration.world import GATE
from tests.watch.conftest import Noted
from tools.cli.main import app
from tools.cli.options import PROBLEM_FOUND
from tools.local.paths import ROOT


class Counted(Counter):
    """Telemetry that counts what is added."""

    def add(self, metric, number=1, **attributes):
        """Count it."""
        self[metric.name, *attributes.values()] += number


class At(SystemClock):
    """A clock that stands at a time."""

    def __init__(self, moment):
        self.moment = moment

    def now(self):
        """Return the time."""
        return self.moment


def typed(world, line):
    """Type a line of a page, with the ids that a test has."""
    line = line.partition(" #")[0].replace("ORDER", "order-1").replace("CONFERENCE", "c1")
    return CliRunner().invoke(app, re.findall(r"[^\s\"]+|\"[^\"]*\"", line)[1:], env=world.environ | {"COLUMNS": "200"})


def test_every_command_of_the_page_succeeds(world):
    """As the page has them."""
    open_conference(world)
    place(world, "order-1", gate=GATE)
    world.release(GATE)
    world.pump()
    page = (ROOT / "docs" / "registration.md").read_text()
    lines = [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    assert len(lines) > 3
    for line in lines:
        done = typed(world, line)
        assert done.exit_code == 0, (line, done.output, done.exception)


def test_the_story_of_an_order_has_each_command_and_when_it_was_sent(world):
    """By the first write that knew it: the reservation by that of its answer. The last command has no later write."""
    open_conference(world)
    placed_at = world.clock.now()
    place(world, "order-1")
    world.clock.moment += timedelta(seconds=3)
    world.pump()
    answered_at = world.clock.now()
    world.clock.moment += timedelta(seconds=3)
    world.take("payment", id="p1", order="order-1", outcome="completed", amount=str(world.order("order-1").total))
    done = typed(world, "sluice processes show ORDER --json")
    reserve, commit = json.loads(done.stdout)["commands"]
    assert (reserve["kind"], commit["kind"]) == ("reserve_seats", "confirm_seats")
    moments = [datetime.fromisoformat(reserve[name]) for name in ("decided_at", "sent_by")]
    assert moments == [placed_at, answered_at]
    assert (datetime.fromisoformat(commit["decided_at"]), commit["sent_by"]) == (world.clock.now(), None)
    assert "reserve_seats" in typed(world, "sluice processes show ORDER").stdout


def test_an_order_that_was_dropped_twice_runs_once(world):
    """Each drop may leave a row of its own on the agenda until that is due: the list has the earliest."""
    open_conference(world)
    place(world, "order-1")
    (row,) = world.own.read_timeouts()
    later = replace(row, due=row.due + timedelta(seconds=7))
    world.own.agenda.write([later])
    listed = json.loads(typed(world, "sluice processes list --json").stdout)["processes"]
    assert [(one["order"], one["expires"]) for one in listed] == [("order-1", row.due.isoformat())]


def test_the_balance_of_a_conference_counts_its_events(world):
    """`version` of a conference is the one that its customers read, which is another number."""
    open_conference(world)
    place(world, "order-1")
    world.pump()
    told = json.loads(typed(world, "sluice seats show CONFERENCE --json").stdout)
    assert (told["events"], "version" in told) == (world.own.homes.read_head(seats_home("c1")).version, False)


def test_a_home_of_before_shows_the_commands_that_its_process_has(world):
    """Its rows do not say when: the columns are left out, and the rest is read."""
    open_conference(world)
    place(world, "order-1")
    table = world.connections.tables.get_table_client("homes")
    for row in list(table.query_entities("PartitionKey eq 'order-order-1'")):
        if row.pop("published", None) is not None and row["RowKey"] != "head":
            row.pop("sends", None)
            table.update_entity(row, mode="replace")
    (reserve,) = json.loads(typed(world, "sluice processes show ORDER --json").stdout)["commands"]
    assert (reserve["kind"], reserve["decided_at"], reserve["sent_by"]) == ("reserve_seats", None, None)


def test_a_name_that_nothing_can_have_is_said_to_be_unknown(world):
    """A slip of the keyboard is no outage of storage."""
    for command, noun in (("orders", "order"), ("processes", "order"), ("seats", "conference")):
        for name in ("²", "9" * 13, "a/b", "order#1"):
            done = CliRunner().invoke(app, [command, "show", name], env=world.environ | {"COLUMNS": "200"})
            assert done.exit_code == PROBLEM_FOUND, (command, name, done.exception)
            assert f"there is no {noun} {name!r}" in done.output


def test_skipped_commands_are_counted_by_their_reason_and_the_late_ones_are_told(told):
    """One line for many. A command that came twice is only counted."""
    counted = Counted()
    skipped = SkippedCommands(counted)
    clock = At(NOON)
    state = conference(a=2)
    for at, command in (
        (END + timedelta(seconds=1), reserve("a", a=1)),
        (END + KEPT_FOR + timedelta(seconds=1), cancel("b")),
        (END + timedelta(seconds=1), reserve("c", a=1)),
    ):
        clock.moment = at
        assert decide_command(state, replace(send_to("c1", command), id="x"), clock, skipped).events == ()
    skipped.note(Skip.KNOWN)
    skipped.report()
    skipped.report()
    assert counted == {
        ("sluice.seats.skipped", "late"): 2,
        ("sluice.seats.skipped", "forgotten"): 1,
        ("sluice.seats.skipped", "known"): 1,
    }
    assert told(order_events.SEATS_LATE) == [{"late": 2, "forgotten": 1}]


def homes_with(*commands):
    """Return homes with a conference that obeyed these commands."""
    homes, (_, made) = MemoryHomes(), follow(Seats().initial(), *commands)
    stored = tuple(replace(event, version=version) for version, event in enumerate(made, 1))
    homes.commit(Commit(home=seats_home("c1"), aggregate="seats", expected=0, events=stored))
    return homes


def check(homes, at, until=float("inf")):
    """Check the seats at a time."""
    noted = Noted()
    SeatCheck(homes, Mementos(homes, Seats(), 500), At(at), TickNeeds(noted, At(at))).run(until)
    return noted.stands


def test_a_reservation_that_nothing_ended_is_told_and_kept(told):
    """From ten minutes after its window on. Nothing frees it by itself."""
    homes = homes_with(offer(a=2), reserve("o-1", a=1), reserve("o-2", a=1))
    assert check(homes, END + KEPT_FOR) == {}
    assert told(order_events.SEATS_OVERDUE) == []
    (need,) = check(homes, END + KEPT_FOR + timedelta(seconds=1)).values()
    assert (need.words, need.about, need.is_grave) == ("seats overdue", "c1", False)
    assert need.found == "2 reservations hold seats past their window, the first of order o-1"
    assert told(order_events.SEATS_OVERDUE) == [{"home": "seats-c1", "reservations": 2, "first": "o-1"}]
    assert told(order_events.SEATS_UNEVEN) == []
    assert homes.read_head(seats_home("c1")).version == 3


def test_seats_that_do_not_add_up_are_told(told):
    """An event that breaks the balance: nothing more is decided there, and a person hears of it."""
    homes = homes_with(offer(a=2))
    broken = replace(decide(conference(a=9), reserve("o-1", a=9), NOON).events[0], version=2)
    homes.commit(Commit(home=seats_home("c1"), aggregate="seats", expected=1, events=(broken,)))
    (need,) = check(homes, NOON).values()
    assert (need.words, need.about, need.is_grave) == ("seats uneven", "c1", True)
    (found,) = told(order_events.SEATS_UNEVEN)
    assert found["home"] == "seats-c1"
    assert "This is a defect of Sluice" in found["error"]


def test_the_hourly_check_names_an_event_that_says_other_numbers(told):
    """Its own `remaining` is compared with what the events make: seats that it hides would be lost."""
    homes = homes_with(offer(a=5))
    made = decide(conference(a=5), reserve("o-1", a=2), NOON).events[0]
    edited = replace(made, version=2, body={**made.body, "remaining": {"a": 4}})
    homes.commit(Commit(home=seats_home("c1"), aggregate="seats", expected=1, events=(edited,)))
    (need,) = check(homes, NOON).values()
    assert need.found.startswith("event 2 'seats_reserved' says 4 available of 'a', the events make 3")
    (found,) = told(order_events.SEATS_UNEVEN)
    assert found["error"] == need.found


def test_the_balance_of_a_conference_says_which_event_was_edited_and_what_it_contradicts(world):
    """An event that grants less than it did frees seats that are taken. The sums are even, and nothing else hides it."""
    open_conference(world, quota=9)
    place(world, "order-1", seats=3)
    world.pump()
    whole = world.own.tell_seats("c1")
    assert (whole["contradictions"], whole["changed"], whole["unproven"]) == ([], [], [])
    table = world.connections.tables.get_table_client("homes")
    row = table.get_entity(seats_home("c1"), event_key(2))
    body = {**json.loads(row["body"]), "granted": {"a": 1}}
    edited = {"PartitionKey": row["PartitionKey"], "RowKey": row["RowKey"], "body": json.dumps(body)}
    table.update_entity(edited, mode=UpdateMode.MERGE)
    ran = typed(world, "sluice seats show CONFERENCE --json")
    found = json.loads(ran.stdout)
    assert (ran.exit_code, found["uneven"], found["changed"]) == (PROBLEM_FOUND, [], [2])
    free = whole["types"]["a"]["available"]
    assert found["types"]["a"]["available"] == free + 2
    assert found["contradictions"] == [
        f"event 2 'seats_reserved' says {free} available of 'a', the events make {free + 2} available"
    ]
    shown = typed(world, "sluice seats show CONFERENCE")
    assert (shown.exit_code, "event 2 'seats_reserved' says" in shown.stdout) == (PROBLEM_FOUND, True)


def test_an_event_that_does_not_fit_the_others_ends_the_balance_before_it(world):
    """It is named, and the numbers are those of the events before it."""
    open_conference(world)
    place(world, "order-1", seats=2)
    world.pump()
    table = world.connections.tables.get_table_client("homes")
    row = table.get_entity(seats_home("c1"), event_key(2))
    row["body"] = json.dumps({**json.loads(row["body"]), "granted": {"nothing": 1}})
    table.update_entity(row, mode=UpdateMode.MERGE)
    found = world.own.tell_seats("c1")
    assert found["contradictions"] == ["event 2 'seats_reserved' does not fit those before it (KeyError)"]
    assert found["types"]["a"]["reserved"] == 0


def test_a_check_that_is_out_of_time_begins_no_conference(told):
    """The tick has other work."""
    check(homes_with(offer(a=2), reserve("o-1", a=1)), END + timedelta(days=1), until=0.0)
    assert told(order_events.SEATS_OVERDUE) == []


def test_the_tick_checks_the_seats_once_an_hour(world, told):
    """Over the stores of an installation: the reservation whose end is lost is told."""
    open_conference(world)
    place(world, "order-1")
    world.pump()
    world.clock.moment += timedelta(hours=2)
    world.part.check_seats(float("inf"))
    assert [one["first"] for one in told(order_events.SEATS_OVERDUE)] == ["order-1"]
    assert 0 <= SEATS_CHECKED_AT < 60


def test_an_unsettled_payment_is_told(told):
    """By the message that brings it to the view, with its id and without its amount."""
    body = event_of(PaymentUnsettled("p1", "500.00", "amount_differs"), NOON)
    parcels = list(event_parcels(TOPIC, "0", EventRange("order-o-1", 3, 3, (replace(body, version=3),))))
    noted = Noted()
    tell_unsettled([message_of(parcels).body], TickNeeds(noted, At(NOON)))
    assert noted.said() == {"order unsettled o-1": "payment p1 confirmed nothing: amount_differs"}
    assert told(order_events.ORDER_UNSETTLED) == [{"home": "order-o-1", "payment": "p1", "reason": "amount_differs"}]


def test_wrong_codes_are_counted_and_many_of_a_minute_are_told_once(told):
    """The line has no code and no order."""
    counted = Counted()
    codes = WrongCodes(At(NOON), counted)
    for _ in range(MANY + 5):
        codes.note()
    assert counted == {("sluice.codes.wrong",): MANY + 5}
    assert [one["wrong"] for one in told(order_events.CODES_TRIED)] == [MANY]


@pytest.mark.parametrize(("seats", "outcome"), [(1, "reserved"), (3, "partially_reserved")])
def test_answers_to_orders_are_counted_by_what_became_of_the_order(world, seats, outcome):
    """An order that was taken by a kept answer, and got fewer seats, is one of them."""
    world.verbs._telemetry = counted = Counted()
    open_conference(world)
    place(world, "order-1", seats=seats)
    world.pump()
    assert counted == {("sluice.orders.answers", outcome): 1}
