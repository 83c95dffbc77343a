"""What registration parks: an operator replays it, it takes effect once, and no access code is in it."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from capabilities.registration.order import order_home
from capabilities.registration.order_messages import seats_home
from capabilities.registration.seat_flows import MOST_ATTEMPTS
from shared.app import App, Stores
from shared.azure import Destination
from shared.capability import DeadLetter
from shared.parked import EntryState
from shared.processes import Command, EventRange, command_parcel, event_parcels, message_of
from shared.usage import POISON_MINUTES
from shared.versions import LOOKS
from shared.workloads import Workloads
from tests.registration.test_flows import TOPIC, open_conference, place
from tests.registration.test_without_codes import CODE, HOSTILE
from tests.registration.world import LANE
from tools.cli.main import app

LANE_OF = Destination("bus", LANE)


def entries(world):
    """Return all that is parked, by its reason."""
    return {entry.reason: entry for entry in world.stores.parked_table.entries(closed=True)}


def versions(world, *homes):
    """Return the versions of homes: what changes nothing leaves them."""
    return [world.own.homes.read_head(home).version for home in homes]


def prepare_payment(world):
    """A payment before its order, and a change of one: then the order comes."""
    open_conference(world)
    world.take("payment", id="p1", order="order-1", outcome="completed", amount="500.00")
    place(world, "order-1")
    world.pump()
    return "unknown_order", order_home("order-1")


def prepare_order(world):
    """An order for a conference that came later."""
    world.take("place_order", order="order-1", conference="c1", seats={"a": 1}, access_code=CODE)
    open_conference(world)
    return "unknown_conference", order_home("order-1")


def prepare_more_seats(world):
    """More seats of a conference that came later."""
    world.take("add_seats", id="a1", conference="c1", seats={"a": 2})
    open_conference(world)
    return "unknown_conference", seats_home("c1")


@pytest.mark.parametrize("prepare", [prepare_payment, prepare_order, prepare_more_seats])
def test_a_parked_message_is_replayed_and_counts_once(world, prepare):
    """Whatever it is. Its entry is closed when its effect is there, and a second message of its content changes nothing."""
    reason, home = prepare(world)
    body = world.stores.parked_table.body(entries(world)[reason])
    queue = entries(world)[reason].queue
    fates, sent = world.replay(reason)
    assert (fates, sent > 0) == (["done"], True)
    assert entries(world)[reason].state is EntryState.DONE
    before = versions(world, home)
    world.drop(queue, body)
    assert world.take_dropped() == 1
    world.pump()
    assert versions(world, home) == before
    assert len(entries(world)) == 1


@pytest.mark.parametrize("prepare", [prepare_payment, prepare_order, prepare_more_seats])
def test_a_replay_of_what_landed_meanwhile_sends_nothing_and_says_so(world, prepare):
    """Its sender may have sent it again by itself."""
    reason, home = prepare(world)
    body = world.stores.parked_table.body(entries(world)[reason])
    world.drop(entries(world)[reason].queue, body)
    world.take_dropped()
    world.pump()
    before = versions(world, home)
    assert world.replay(reason) == (["done before"], 0)
    assert (entries(world)[reason].state, entries(world)[reason].replays) == (EntryState.DONE, 0)
    assert versions(world, home) == before


def test_what_is_still_wrong_comes_back_to_its_entry(world):
    """The order with its own code too: the copy of the copy has the same key."""
    world.take("place_order", order="order-1", conference="c1", seats={"a": 1}, access_code=CODE)
    assert world.replay("unknown_conference") == (["same again"], 1)
    found = entries(world)["unknown_conference"]
    assert (found.state, found.returns, len(entries(world))) == (EntryState.OPEN, 1, 1)


def test_an_id_with_other_content_has_not_landed(world):
    """Nor has an order with another code: they are refused again, and stay listed."""
    open_conference(world)
    place(world, "order-1", access_code="another-code")
    world.take("place_order", order="order-1", conference="c1", seats={"a": 1}, access_code=CODE)
    world.take("conference", id="k1", conference="c1", seats={"a": {"price": "400.00", "quota": 2}})
    assert world.replay("order_differs")[0] == ["same again"]
    assert world.replay("id_differs")[0] == ["same again"]


def test_a_replayed_order_opens_by_the_code_that_its_sender_chose(world):
    """Although the code was never stored. The sender's own message is then the same order."""
    prepare_order(world)
    world.replay("unknown_conference")
    assert world.own.codes.verify("order-1", CODE, lambda: world.own.find_fields("order-1"))
    assert not world.own.codes.verify("order-1", "removed", lambda: world.own.find_fields("order-1"))
    assert place(world, "order-1", access_code=CODE).access_code == CODE


def stored(world):
    """Yield everything that the tables and the containers hold."""
    for table in world.connections.tables.list_tables():
        for row in world.connections.tables.get_table_client(table.name).list_entities():
            yield repr(dict(row)).encode()
    for container in world.connections.blobs.list_containers():
        client = world.connections.blobs.get_container_client(container.name)
        yield from (client.download_blob(blob.name).readall() for blob in client.list_blobs())


def leaks(world):
    """Return what is stored with a code in it."""
    return [part for part in stored(world) if CODE.encode() in part or CODE.encode().hex().encode() in part]


def test_no_access_code_is_stored_or_told_with_what_is_parked(world, caplog):
    """Whatever is wrong with the message: refused by the app, or given up by the host."""
    caplog.set_level("DEBUG", "sluice")
    poison = world.connections.queues.get_queue_client("orders-poison")
    for body in HOSTILE:
        poison.send_message(body.decode())
    drain(world)
    assert {*entries(world)} == {"delivered_too_often"}
    assert not list(poison.peek_messages())
    assert leaks(world) == []
    # The same bytes again would only count in the entries that are there.
    parked = world.connections.tables.get_table_client("parked")
    for row in parked.list_entities():
        parked.delete_entity(row)
    for body in HOSTILE:
        world.connections.queues.get_queue_client("orders").send_message(body.decode())
    # At the delivery at which one of a newer version waits no more.
    world.take_dropped(count=LOOKS)
    assert {"unknown_conference", "unknown_field", "not_json", "duplicate_key", "unsupported_version"} <= {
        *entries(world)
    }
    assert leaks(world) == []
    assert CODE not in caplog.text


def drain(world):
    """Run the app's tick at a quarter of an hour."""
    now = world.clock.moment
    world.clock.moment = now + timedelta(minutes=POISON_MINUTES - now.minute % POISON_MINUTES)
    workloads = Workloads.load(world.settings.workloads, world.environ)
    with App(world.connections, world.settings, workloads, stores=Stores(world.connections, clock=world.clock)) as made:
        made.tick()


def test_a_poison_message_of_the_queue_orders_is_found_by_the_tick_and_replayed(world):
    """It lies under its stage, and takes effect once."""
    open_conference(world)
    body = json.dumps(
        {"sluice": {"v": 1, "kind": "place_order", "order": "order-1", "conference": "c1", "seats": {"a": 1}}}
    )
    world.connections.queues.get_queue_client("orders-poison").send_message(body)
    drain(world)
    found = entries(world)["delivered_too_often"]
    assert (found.stage, found.queue) == ("orders", "orders")
    assert world.stores.parked_table.body(found) == body.encode()
    assert world.replay("delivered_too_often")[0] == ["done"]
    assert world.order("order-1").phase == "reserved"


def fail(world, monkeypatch, *kinds):
    """Have the decisions on commands of these kinds fail. Return a list of them, which the test may empty."""
    failing = list(kinds)
    writer = world.verbs.seats._receiver._writer
    decide = writer._decide

    def broken(state, command):
        if command.kind in failing:
            raise ZeroDivisionError
        return decide(state, command)

    monkeypatch.setattr(writer, "_decide", broken)
    return failing


def test_a_failing_seat_command_is_tried_later_each_time_and_then_parked(world, monkeypatch):
    """Each copy has its count. The commands behind it do not wait, and a replay of it takes effect once."""
    open_conference(world)
    failing = fail(world, monkeypatch, "reserve_seats")
    # The bus goes by its own clock: what is sent for later by a clock of yesterday is there at once.
    world.clock.moment -= timedelta(days=1)
    sender, sent = world.verbs.seats._sender, []
    send = sender.send

    def note(queue, messages, **when):
        # Events, first commands and hints go the same way.
        if queue == LANE_OF and "at" in when:
            (command,) = json.loads(messages[0].body)["sluice"]["commands"]
            sent.append((command["attempt"], (when["at"] - world.clock.now()).total_seconds()))
        send(queue, messages, **when)

    monkeypatch.setattr(sender, "send", note)
    place(world, "order-1")
    world.pump()
    assert sent == [(2, 5), (3, 10), (4, 20), (MOST_ATTEMPTS, 40)]
    found = entries(world)["failed:ZeroDivisionError"]
    assert (found.stage, found.attempts, world.order("order-1").phase) == ("registration", MOST_ATTEMPTS, "placed")
    world.take("add_seats", id="a1", conference="c1", seats={"a": 1})
    failing.clear()
    assert world.replay(found.reason)[0] == ["done"]
    assert (world.order("order-1").phase, world.seats("c1").types["a"].reserved) == ("reserved", 1)
    assert world.seats("c1").types["a"].quota == 3


def test_the_commands_beside_a_failing_one_are_obeyed(world, monkeypatch):
    """They are one message: it is not given back, for then all of them would come again."""
    open_conference(world)
    good, bad = (
        Command(kind=kind, to="seats-c1", body=body, id=kind, generation=1, not_after=None)
        for kind, body in (
            ("cancel_seats", {"order": "o-9", "not_after": (world.clock.now() + timedelta(hours=1)).isoformat()}),
            ("reserve_seats", {"no": "order"}),
        )
    )
    world.clock.moment -= timedelta(days=1)
    bundle = message_of([command_parcel(LANE_OF, bad), command_parcel(LANE_OF, good)])
    world.verbs.seats.sell([bundle.body])
    assert world.seats("c1").reservations.get("o-9").generation == 1
    world.pump()
    assert [entry.stage for entry in entries(world).values()] == ["registration"]


def test_a_copy_that_cannot_be_sent_brings_the_message_back(world, monkeypatch):
    """It was not obeyed, not sent again and not parked: only its redelivery is left."""
    open_conference(world)
    fail(world, monkeypatch, "reserve_seats")
    place(world, "order-1")
    monkeypatch.setattr(world.verbs.seats._sender, "send", lambda *_, **__: (_ for _ in ()).throw(OSError("down")))
    with pytest.raises(Exception, match="its message comes again"):
        world.pump()
    assert entries(world) == {}


def test_a_parked_event_and_a_dead_start_are_done_when_nothing_of_them_is_left_to_do(world):
    """An answer that its order heard and its view shows; an order that was started."""
    open_conference(world)
    place(world, "order-1")
    place(world, "order-2", gate="sale")
    world.pump()
    head = world.own.homes.load(seats_home("c1"))
    answer = next(event for event in head.events if event.kind == "seats_reserved")
    parcels = list(event_parcels(TOPIC, "c1", EventRange("seats-c1", answer.version, answer.version, (answer,))))
    heard = message_of(parcels).body
    world.verbs.park([DeadLetter("seats-events/processes", "m1", heard, "MaxDeliveryCountExceeded")])
    assert world.replay("dead_lettered") == (["done before"], 0)
    ahead = replace(answer, generation=7, version=answer.version + 9)
    parcels = list(event_parcels(TOPIC, "c1", EventRange("seats-c1", ahead.version, ahead.version, (ahead,))))
    world.verbs.seats._sender.send(TOPIC, [message_of(parcels)])
    world.pump()
    # The bus drops a second message of one id, and must not drop this one.
    assert world.replay("unexpected_reply")[0] == ["same again"]


@pytest.fixture
def sluice(world):
    """Run a command, as an operator types it, with other settings where they are given."""

    def run(*words, **settings):
        return CliRunner().invoke(app, ["parked", *words], env=world.environ | {"COLUMNS": "250", **settings})

    return run


def test_the_command_replays_what_registration_parked(world, sluice):
    """It knows the stages by the settings; with others it says so, and changes nothing."""
    reason, _ = prepare_payment(world)
    found = entries(world)[reason]
    assert json.loads(sluice("list", "--json").stdout)["groups"][0]["stage"] == "sales"
    assert sluice("show", found.job, found.key, "--body").stdout_bytes == world.stores.parked_table.body(found)
    replay = ("replay", "--reason", reason, "--yes", "--patience", "0")
    off = sluice(*replay, SLUICE_CAPABILITIES="")
    assert (off.exit_code, off.stdout.splitlines()[-1]) == (1, "1 of an unknown stage")
    assert entries(world)[reason] == found
    sent = sluice(*replay)
    assert (sent.exit_code, sent.stdout.splitlines()[-1]) == (1, "1 no answer")
    assert world.take_dropped() == 1
    world.pump()
    assert world.order("order-1").phase == "confirmed"
    again = sluice(*replay, "--again")
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (0, "1 done before")
    assert world.take_dropped() == 0
