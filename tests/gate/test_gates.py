"""Gates, held work, operator and tick on real storage."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta

import pytest
from azure.storage.queue import QueueClient

from shared.app import Stores
from shared.errors import (
    DispatchIncompleteError,
    GateCorruptError,
    HeldConflictError,
    MessageRefusedError,
    NameRefusedError,
    ScheduleRefusedError,
)
from shared.gate.held import MOST_BYTES
from shared.gate.held_work import Holding
from shared.gate.outflow import Dispatched
from shared.operating.audit import acts_of
from shared.signals import Hint, NoSignals
from shared.telemetry import events
from tests.faults.plan import Plan
from tests.gate.conftest import NOON, House, RecordedSignals, bodies, held


def test_a_gate_that_nobody_opened_is_closed(house, gate):
    """Without a blob there is epoch 0, closed, and nothing was ever done to it."""
    state = house.gates.read(gate)
    assert (state.epoch, state.is_open, state.changes) == (0, False, ())


def test_work_behind_a_closed_gate_waits_and_an_opening_releases_it(house, gate, queue, signals):
    """Held work is put on its queue after the opening, once, and its row is gone."""
    assert house.held_work.hold(gate, "a", queue.queue_name, "one") is Holding.HELD
    assert house.release(gate) == Dispatched()
    assert bodies(queue) == []
    house.gate_operator.open(gate, by="ann", why="the batch is due")
    assert house.release(gate) == Dispatched(put=1)
    assert house.release(gate) == Dispatched()
    assert (bodies(queue), signals.sent) == (["one"], [(gate, 1)])


def test_an_open_gate_lets_work_pass(house, gate, queue):
    """Work that comes to an open gate is on its queue at once, without a row."""
    house.gate_operator.open(gate, by="ann")
    assert house.held_work.hold(gate, "a", queue.queue_name, "one") is Holding.PASSED
    assert (bodies(queue), list(house.held.summaries())) == (["one"], [])


def test_a_pulse_between_two_ticks_is_served(house, gate, queue):
    """Work held before an opening starts even if the gate is closed again when the tick comes."""
    house.held_work.hold(gate, "a", queue.queue_name, "before")
    house.gate_operator.open(gate, by="ann")
    house.gate_operator.close(gate, by="ann")
    house.held_work.hold(gate, "b", queue.queue_name, "after")
    assert house.tick.run() == {gate: Dispatched(put=1)}
    assert bodies(queue) == ["before"]
    house.gate_operator.open(gate, by="ann")
    house.tick.run()
    assert bodies(queue) == ["after"]


def test_work_held_in_the_very_moment_of_opening_is_dispatched_by_its_keeper(house, gate, queue, house_under):
    """A pulse that falls between the keeper's reading and its row leaves nothing stranded."""

    class PulseBeforeTheRow(Plan):
        def take(self, site, **_details):
            if site == "POST held":
                house.gate_operator.open(gate, by="ann")
                house.gate_operator.close(gate, by="ann")
            return ""

    keeper = house_under(PulseBeforeTheRow())
    assert keeper.held_work.hold(gate, "a", queue.queue_name, "one") is Holding.RELEASED
    assert (bodies(queue), list(house.held.summaries())) == (["one"], [])


def test_once_closes_after_the_held_work_of_its_epoch(house, gate, queue):
    """Tomorrow's batch waits again, and a second tick has nothing left to do."""
    house.held_work.hold(gate, "a", queue.queue_name, "today")
    house.gate_operator.open(gate, by="ann", once=True)
    assert house.gates.read(gate).is_open
    house.tick.run()
    assert house.held_work.hold(gate, "b", queue.queue_name, "tomorrow") is Holding.HELD
    house.tick.run()
    assert (bodies(queue), list(house.pending.due(NOON))) == (["today"], [])


def test_once_stays_open_while_some_of_its_work_cannot_be_put(house, gate, queue, connections):
    """Work that failed is tried again before the gate closes; nothing is forgotten."""
    house.held_work.hold(gate, "a", "no-such-queue", "one")
    house.gate_operator.open(gate, by="ann", once=True)
    with pytest.raises(DispatchIncompleteError, match=f"gate '{gate}': 1 of 1 could not be put"):
        house.tick.run()
    assert house.gates.read(gate).is_open
    connections.queues.create_queue("no-such-queue").close()
    assert house.tick.run() == {gate: Dispatched(put=1)}
    assert not house.gates.read(gate).is_open
    connections.queues.delete_queue("no-such-queue")


def test_a_scheduled_opening_happens_at_its_time_and_tells_everybody(house, gate, queue, clock, signals):
    """The tick opens in the planner's name, dispatches, signals, and forgets the pointer."""
    house.held_work.hold(gate, "a", queue.queue_name, "one")
    house.gate_operator.schedule(gate, NOON + timedelta(hours=1), by="ann", why="nightly", once=True)
    house.tick.run()
    planned = (gate, 1, NOON + timedelta(hours=1))
    assert (bodies(queue), signals.sent) == ([], [planned])
    clock.advance(hours=1)
    house.tick.run()
    state = house.gates.read(gate)
    assert (state.epoch, state.is_open, state.opened_by, state.why) == (1, False, "ann", "nightly")
    assert (bodies(queue), signals.sent, list(house.pending.due(clock.now()))) == (["one"], [planned, (gate, 1)], [])


def test_the_signal_of_a_planned_opening_opens_it_and_the_tick_does_the_rest(house, gate, queue, clock, signals):
    """It waits on the bus until its time; whoever gets it opens, releases and signals, and the tick closes after once."""
    house.held_work.hold(gate, "a", queue.queue_name, "one")
    assert house.gate_operator.schedule(gate, NOON + timedelta(hours=1), by="ann", once=True).unsignalled == ""
    assert house.releaser.on_signal(Hint(gate)) == Dispatched()
    assert (bodies(queue), house.pauses) == ([], [])
    clock.advance(hours=1)
    assert house.releaser.on_signal(Hint(gate)) == Dispatched(put=1)
    assert (bodies(queue), signals.sent[-1], house.gates.read(gate).is_open) == (["one"], (gate, 1), True)
    house.tick.run()
    assert not house.gates.read(gate).is_open
    assert list(house.pending.due(clock.now())) == []


def test_a_signal_that_comes_a_little_too_early_waits_for_the_time(house, gate, queue, clock):
    """The bus may be ahead of storage by some seconds; by more, the tick opens."""
    house.held_work.hold(gate, "a", queue.queue_name, "one")
    house.gate_operator.schedule(gate, NOON + timedelta(minutes=1), by="ann")
    house.releaser = replace_pause(house.releaser, lambda seconds: clock.advance(seconds=seconds))
    clock.advance(seconds=54)
    assert house.releaser.on_signal(Hint(gate)) == Dispatched()
    clock.advance(seconds=2)
    assert house.releaser.on_signal(Hint(gate)) == Dispatched(put=1)
    assert clock.now() == NOON + timedelta(minutes=1)
    bodies(queue)


def replace_pause(releaser, pause):
    """Return the releaser with another way to wait."""
    releaser._pause = pause
    return releaser


@pytest.mark.parametrize("end", ["cancelled", "postponed"])
def test_the_signal_of_a_plan_that_was_changed_is_only_a_hint(house, gate, queue, clock, end):
    """Its bus delivers it all the same, and the gate decides."""
    house.held_work.hold(gate, "a", queue.queue_name, "one")
    house.gate_operator.schedule(gate, NOON + timedelta(minutes=1), by="ann")
    if end == "cancelled":
        house.gate_operator.close(gate, by="ann")
    else:
        house.gate_operator.schedule(gate, NOON + timedelta(hours=1), by="ann")
    clock.advance(minutes=1)
    assert house.releaser.on_signal(Hint(gate)) == Dispatched()
    assert (bodies(queue), house.gates.read(gate).is_open) == ([], False)


def test_a_schedule_with_fractions_of_a_second_is_kept(house, gate, clock):
    """Pointer and plan agree to the second, so that none is dropped before its time."""
    house.gate_operator.schedule(gate, NOON + timedelta(seconds=60, microseconds=700_000), by="ann")
    clock.advance(seconds=60)
    house.tick.run()
    assert house.gates.read(gate).is_open


@pytest.mark.parametrize("taken_back_by", ["open", "close", "schedule"])
def test_the_last_command_stands(house, gate, clock, taken_back_by):
    """A plan that was replaced opens nothing, and its pointer is dropped when it comes due."""
    house.gate_operator.schedule(gate, NOON + timedelta(hours=1), by="ann")
    if taken_back_by == "open":
        house.gate_operator.open(gate, by="bob")
        house.gate_operator.close(gate, by="bob")
    elif taken_back_by == "close":
        house.gate_operator.close(gate, by="bob")
    else:
        house.gate_operator.schedule(gate, NOON + timedelta(hours=2), by="bob")
    epoch = house.gates.read(gate).epoch
    clock.advance(hours=1)
    house.tick.run()
    assert house.gates.read(gate).epoch == epoch
    assert list(house.pending.due(clock.now())) == []


@pytest.mark.parametrize(
    ("ahead", "reason"), [(timedelta(0), "that is in the past"), (timedelta(days=500), "check the year")]
)
def test_a_time_that_makes_no_sense_is_refused(house, gate, ahead, reason):
    """Nothing is written for a plan in the past or in the wrong year."""
    with pytest.raises(ScheduleRefusedError, match=reason):
        house.gate_operator.schedule(gate, NOON + ahead, by="ann")
    assert house.gates.read(gate).changes == ()


def test_an_idle_tick_makes_exactly_two_requests(connections, house_under):
    """One finds that no gate holds anything, one that nothing is due."""
    plan = Plan()
    assert house_under(plan).tick.run() == {}
    assert sorted(plan.sites) == ["GET held()", "GET pending()"]


def test_a_tick_does_not_read_what_waits_behind_closed_gates(house, gate, house_under):
    """A gate that holds much costs as many requests a tick as one that holds one entry."""
    for number in range(5):
        house.held_work.hold(gate, f"job-{number}", "nowhere", "{}")
    plan = Plan()
    house_under(plan).tick.run()
    # Nothing due; this gate; no gate after it; its flag, which was never opened.
    assert plan.count == 4


def test_held_messages_never_expire(house, gate, queue, connections):
    """A dispatched message has no time to live, and a row has none anyway."""
    house.held_work.hold(gate, "a", queue.queue_name, "one")
    house.gate_operator.open(gate, by="ann")
    house.release(gate)
    assert queue.receive_message().expires_on.year == 9999


def test_holding_again_after_a_failure_keeps_one_row(house, gate, queue):
    """A redelivered submission finds its row and its first epoch."""
    for _ in range(2):
        assert house.held_work.hold(gate, "a", queue.queue_name, "one") is Holding.HELD
    house.gate_operator.open(gate, by="ann")
    assert house.release(gate) == Dispatched(put=1)
    assert bodies(queue) == ["one"]


def test_the_same_id_with_another_message_is_refused(house, gate, queue):
    """Neither of two messages with one id is lost in silence."""
    house.held_work.hold(gate, "a", queue.queue_name, "one")
    with pytest.raises(HeldConflictError, match="has been held under that id"):
        house.held_work.hold(gate, "a", queue.queue_name, "two")


def test_a_message_as_large_as_a_queue_takes_goes_through(house, gate, queue):
    """64 KiB of characters that need escapes in XML come out as they went in."""
    message = "<é&>" * (MOST_BYTES // 5)
    house.held_work.hold(gate, "a", queue.queue_name, message)
    house.gate_operator.open(gate, by="ann")
    assert house.release(gate) == Dispatched(put=1)
    assert bodies(queue) == [message]


@pytest.mark.parametrize(("message", "reason"), [("x" * (MOST_BYTES + 1), "65537 bytes"), ("a\x00b", r"U\+0000")])
def test_a_message_that_no_queue_carries_is_refused_before_it_is_held(house, gate, message, reason):
    """What could never be dispatched is not taken."""
    with pytest.raises(MessageRefusedError, match=reason):
        house.held_work.hold(gate, "a", "work-00", message)
    assert list(house.held.summaries()) == []


def test_names_are_checked_before_storage_is_asked(house):
    """A name that would lead elsewhere is refused at every door."""
    for act in (
        lambda: house.gates.read("../secret"),
        lambda: house.release("a/b"),
        lambda: house.gate_operator.open("", by="ann"),
        lambda: house.held_work.hold("g", "a/b", "q", "m"),
    ):
        with pytest.raises(NameRefusedError):
            act()


def test_one_entry_that_cannot_be_put_keeps_nothing_else_waiting(house, gate, queue):
    """The others of its gate and other gates are served; the failure is reported."""
    house.held_work.hold(gate, "a", "no-such-queue", "bad")
    house.held_work.hold(gate, "b", queue.queue_name, "good")
    house.held_work.hold(f"{gate}-z", "c", queue.queue_name, "other")
    for name in (gate, f"{gate}-z"):
        house.gate_operator.open(name, by="ann")
    with pytest.raises(DispatchIncompleteError):
        house.tick.run()
    assert bodies(queue) == ["good", "other"]
    assert [entry.id for page in house.held.pages(gate) for entry in page] == ["a"]


def test_a_gate_of_a_newer_version_waits_and_keeps_no_other_waiting(house, gate, queue, connections, told):
    """It is no fault that an operator looks for: a newer instance serves it. Each look says so once."""
    house.held_work.hold(gate, "a", queue.queue_name, "m")
    connections.blobs.get_blob_client("gates", gate).upload_blob(json.dumps({"v": 9, "epoch": 1, "state": "open"}))
    house.held_work.hold(f"{gate}-z", "c", queue.queue_name, "other")
    house.gate_operator.open(f"{gate}-z", by="ann")
    house.tick.run()
    assert bodies(queue) == ["other"]
    assert [entry.id for page in house.held.pages(gate) for entry in page] == ["a"]
    house.releaser.on_signal(Hint(gate))
    said = f"the blob of gate {gate!r} is a gate of version 9, and this program reads up to version 1"
    assert [one["found"].partition(":")[0] for one in told(events.NEWER_VERSION)] == [said, said]
    assert (told(events.GATE_UNSERVED), told(events.SIGNAL_UNSERVED)) == ([], [])


def test_a_corrupt_gate_opens_nothing_and_keeps_no_other_waiting(house, gate, queue, connections):
    """A blob that holds nonsense fails closed, with its name in the tick's error."""
    blob = connections.blobs.get_blob_client("gates", gate)
    blob.upload_blob(b"Set")
    with pytest.raises(GateCorruptError, match=gate):
        house.held_work.hold(gate, "a", queue.queue_name, "m")
    blob.delete_blob()
    house.held_work.hold(gate, "a", queue.queue_name, "m")
    blob.upload_blob(b"Set")
    house.held_work.hold(f"{gate}-z", "c", queue.queue_name, "other")
    house.gate_operator.open(f"{gate}-z", by="ann")
    with pytest.raises(DispatchIncompleteError, match=f"the blob of gate '{gate}' is not a gate"):
        house.tick.run()
    assert bodies(queue) == ["other"]
    (need,) = (one for one in house.watch.read().needs if one.about == gate)
    assert (need.words, need.is_grave) == ("gate unreadable", True)
    blob.delete_blob()
    house.tick.run()
    assert [one for one in house.watch.read().needs if one.about == gate] == []


def test_a_gate_whose_blob_was_deleted_and_opened_anew_releases_its_old_rows(house, gate, queue, connections):
    """Rows of high epochs do not wait for epochs that take years to come back."""
    for _ in range(3):
        house.gate_operator.open(gate, by="ann")
        house.gate_operator.close(gate, by="ann")
    house.held_work.hold(gate, "a", queue.queue_name, "one")
    connections.blobs.get_blob_client("gates", gate).delete_blob()
    assert house.tick.run() == {gate: Dispatched()}
    house.gate_operator.open(gate, by="ann")
    assert house.tick.run() == {gate: Dispatched(put=1)}


def test_a_row_that_is_newer_than_the_reading_is_not_believed_open(house, gate, queue, house_under):
    """A releaser that read "open" before the gate closed does not start work that met the closed gate."""
    house.gate_operator.open(gate, by="ann")

    class CloseBeforeTheRowsAreRead(Plan):
        def take(self, site, **_details):
            if " held" in site and not self.fired:
                self.fired.add(site)
                house.gate_operator.close(gate, by="ann")
                house.held_work.hold(gate, "late", queue.queue_name, "late")
            return ""

    assert house_under(CloseBeforeTheRowsAreRead()).release(gate) == Dispatched()
    assert bodies(queue) == []


def test_a_row_that_was_written_again_survives_the_end_of_an_older_dispatch(house, gate, queue, house_under):
    """Work that is held again under its id, after another releaser dispatched it, waits for its own opening."""
    house.held_work.hold(gate, "a", queue.queue_name, "m")
    house.gate_operator.open(gate, by="ann")

    class ServedAndHeldAgainBeforeTheDelete(Plan):
        def take(self, site, **_details):
            if site.startswith("DELETE") and not self.fired:
                self.fired.add(site)
                house.release(gate)
                house.gate_operator.close(gate, by="ann")
                assert house.held_work.hold(gate, "a", queue.queue_name, "m") is Holding.HELD
            return ""

    house_under(ServedAndHeldAgainBeforeTheDelete()).release(gate)
    assert [entry.epoch for page in house.held.pages(gate) for entry in page] == [1]


def test_a_tick_between_pointer_and_plan_loses_no_plan(house, gate, clock, house_under):
    """A writer that stood still until its plan was due points anew after the tick has dropped its pointer."""

    class TickBeforeTheState(Plan):
        def take(self, site, **_details):
            if site == f"PUT gates/{gate}" and not self.fired:
                self.fired.add(site)
                clock.advance(hours=2)
                house.tick.run()
                assert list(house.pending.due(clock.now())) == []
            return ""

    house_under(TickBeforeTheState()).gate_operator.schedule(gate, NOON + timedelta(hours=1), by="ann")
    assert not house.gates.read(gate).is_open
    house.tick.run()
    assert house.gates.read(gate).is_open


def test_a_pointer_that_was_written_again_survives_the_tick_that_drops_it(house, gate, house_under):
    """A gate that is opened for once while a tick drops its old pointer is closed by the next tick."""
    house.gate_operator.open(gate, by="ann", once=True)
    house.gate_operator.close(gate, by="ann")

    class OpenBeforeThePointerGoes(Plan):
        def take(self, site, **_details):
            if site.startswith("DELETE pending") and not self.fired:
                self.fired.add(site)
                house.gate_operator.open(gate, by="ann", once=True)
            return ""

    house_under(OpenBeforeThePointerGoes()).tick.run()
    assert house.gates.read(gate).is_open
    house.tick.run()
    assert not house.gates.read(gate).is_open


def test_a_write_whose_reply_was_lost_is_known_after_somebody_else_has_written(house, gate, house_under):
    """An opening that took effect and was closed by somebody else since is not made a second time."""

    class CloseBehindALostReply(Plan):
        def take(self, site, **_details):
            if site == f"PUT gates/{gate}" and not self.fired:
                self.fired.add(site)
                return "reset_after"
            if self.fired and site.startswith("PUT"):
                house.gate_operator.close(gate, by="bob")
            return ""

    outcome = house_under(CloseBehindALostReply()).gate_operator.open(gate, by="ann")
    assert (outcome.is_changed, outcome.after.epoch) == (True, 1)
    assert [line.what.value for line in house.gates.read(gate).changes] == ["close", "open"]


def test_many_openers_at_once_make_one_epoch(house, gate, signals):
    """Eight people who open the same gate open it once, and one signal goes out."""
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda n: house.gate_operator.open(gate, by=f"person {n}"), range(8)))
    assert house.gates.read(gate).epoch == 1
    assert [outcome.is_changed for outcome in outcomes].count(True) == 1
    assert signals.sent == [(gate, 1)]


def test_many_releasers_at_once_lose_nothing_and_leave_nothing(house, gate, queue):
    """Each row is put at least once and removed once, however many release it."""
    ids = [f"job-{number:02}" for number in range(12)]
    for name in ids:
        house.held_work.hold(gate, name, queue.queue_name, name)
    house.gate_operator.open(gate, by="ann")
    start = threading.Barrier(4)

    def release(_):
        start.wait()
        return house.release(gate)

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(release, range(4)))
    assert {failed for _, failed in ((one.put, one.failed) for one in done)} == {0}
    seen = set()
    while found := bodies(queue):
        seen |= set(found)
    assert (sorted(seen), list(house.held.summaries())) == (ids, [])


def test_more_than_one_page_is_released(house, gate, queue, connections):
    """A release goes through every page of a gate."""
    entries = [(f"job-{number:04}", queue.queue_name) for number in range(1005)]
    table = connections.tables.get_table_client("held")
    rows = [
        ("create", {"PartitionKey": gate, "RowKey": name, "epoch": 0, "queue": to, "message": b"{}", "held_at": NOON})
        for name, to in entries
    ]
    for first in range(0, len(rows), 100):
        table.submit_transaction(rows[first : first + 100])
    assert [len(page) for page in house.held.pages(gate)] == [1000, 5]
    # Deleting them by their own requests would take long here; that every page is asked for is the point.


def test_a_bus_that_is_down_fails_no_opening(connections, clock, gate):
    """The flag counts; the outcome says that nobody was told."""
    house = Stores(connections, clock=clock, signals=RecordedSignals(is_down=True))
    outcome = house.gate_operator.open(gate, by="ann")
    assert (outcome.after.is_open, outcome.unsignalled) == (True, "down")
    assert (
        "no bus"
        in Stores(connections, clock=clock, signals=NoSignals()).gate_operator.open(gate + "b", by="a").unsignalled
    )


def test_every_command_is_audited_before_its_effect(house, gate, connections, house_under):
    """Who, what, why and result are on record, and without the record nothing is done."""
    house.gate_operator.open(gate, by="ann", why="due", once=True)
    house.gate_operator.close(gate, by="bob")
    house.gate_operator.close(gate, by="bob")
    audit = connections.tables.get_table_client("audit")
    found = acts_of(audit.query_entities("target eq @gate", parameters={"gate": gate}))
    assert sorted((one.act.who, one.act.what, one.act.why, one.act.result) for one in found) == [
        ("ann", "gate open", "due", "done: epoch 1, open"),
        ("bob", "gate close", "", "done: epoch 1, closed"),
        ("bob", "gate close", "", "nothing to do: epoch 1, closed"),
    ]
    first = Plan()
    house_under(first).gate_operator.open(gate, by="ann")
    assert first.kinds[0] == "POST audit"


def test_the_history_keeps_the_last_changes(house, gate):
    """Who did what is in the gate itself, the newest first."""
    house.gate_operator.open(gate, by="ann", why="x")
    house.gate_operator.close(gate, by="bob", why="y")
    lines = house.gates.read(gate).changes
    assert [(line.what.value, line.epoch, line.by, line.why) for line in lines] == [
        ("close", 1, "bob", "y"),
        ("open", 1, "ann", "x"),
    ]


def test_what_was_held_arrives_byte_for_byte(provisioned, house, gate, queue):
    """Any language reads what was held: there is no encoding of ours around it."""
    house.held_work.hold(gate, "a", queue.queue_name, '{"sluice": {"items": [{}]}}')
    house.gate_operator.open(gate, by="ann")
    house.release(gate)
    with QueueClient.from_connection_string(provisioned.connection_string, queue.queue_name) as plain:
        assert plain.receive_message().content == '{"sluice": {"items": [{}]}}'


def test_a_gate_that_holds_work_is_told_of_every_quarter_of_an_hour(house, gate, queue, clock, told):
    """With how long at least; not in the first hour, not at other ticks, and not when the work was released."""
    house.held_work.hold(gate, "a", queue.queue_name, "one")
    for minutes in (15, 26 * 60, 1):
        clock.advance(minutes=minutes)
        house.tick.run()
    assert told(events.GATE_HOLDING) == [{"gate": gate, "hours": 26}]
    house.gate_operator.open(gate, by="ann")
    clock.advance(minutes=14)
    house.tick.run()
    assert len(told(events.GATE_HOLDING)) == 1
    assert [line["put"] for line in told(events.GATE_RELEASED)] == [1]
    bodies(queue)


def test_a_name_without_a_blob_that_holds_work_needs_a_person(house, gate, queue, clock):
    """From ten minutes on, with the name that was perhaps meant. Closing it registers the name, and ends that."""
    house.gate_operator.close(gate, by="ann")
    assert house.gates.read(gate).changes[0].by == "ann"
    slip = f"{gate}s"
    for name in (gate, slip):
        house.held_work.hold(name, f"of-{name}", queue.queue_name, "one")
    needs = lambda: [one for one in house.watch.read().needs if one.about in {gate, slip}]  # noqa: E731 - used twice
    house.tick.run()
    assert needs() == []
    clock.advance(minutes=10)
    for _ in range(2):
        house.tick.run()
    (need,) = needs()
    assert (need.words, need.about, need.is_grave) == ("gate holds", slip, False)
    assert need.found.endswith(f"Did you mean {gate}?")
    house.gate_operator.close(slip, by="ann")
    house.tick.run()
    assert needs() == []


def test_a_row_of_another_hand_keeps_nobody_else_from_being_served(house, gate, queue, connections, told):
    """It is told of and left alone; what is held beside it, and behind other gates, starts."""
    table = connections.tables.get_table_client("held")
    table.create_entity({"PartitionKey": gate, "RowKey": "0", "held_at": "yesterday"})
    table.create_entity({"PartitionKey": f"{gate}-odd", "RowKey": "0", "epoch": 0})
    house.held_work.hold(gate, "a", queue.queue_name, "one")
    house.gate_operator.open(gate, by="ann")
    assert house.tick.run()[gate] == Dispatched(put=1)
    assert bodies(queue) == ["one"]
    assert told(events.HELD_UNREADABLE) == [{"gate": gate, "entry": "0"}]


class Slow:
    """Starts jobs as long as a test says there is time, by moving the clock past its end."""

    def __init__(self, clock, most):
        self.clock, self.left, self.started = clock, most, []

    def is_job(self, entry):
        """Everything is."""
        return True

    def begin(self, entries, coming):
        """Prepare nothing."""
        return nullcontext()

    def carry_out(self, entry, gate, until, mark):
        """Start it, and be late after the last one."""
        self.started.append(entry.id)
        self.left -= 1
        if not self.left:
            self.clock.advance(minutes=1)
        return True


def test_what_a_release_has_no_time_for_is_anothers_from_where_it_stood(connections, clock, signals, gate):
    """No entry is taken after forty seconds; a signal says which is the next, and the tick needs none."""
    jobs = Slow(clock, 2)
    house = House(connections, jobs, clock=clock, signals=signals, parallel=1)
    for name in "abcde":
        house.held_work.keep(held(gate, name))
    house.gate_operator.open(gate, by="ann")
    assert house.releaser.on_signal(Hint(gate)) == Dispatched(put=2, left=Hint(gate, since="c"))
    assert signals.sent[-1] == Hint(gate, since="c")
    jobs.left = 2
    assert house.releaser.on_signal(Hint(gate, since="c")) == Dispatched(put=2, left=Hint(gate, since="e"))
    signals.is_down = True
    assert house.tick.run() == {gate: Dispatched(put=1)}
    assert jobs.started == ["a", "b", "c", "d", "e"]


def test_a_gate_that_is_open_for_once_stays_open_until_all_of_it_is_on_its_way(connections, clock, signals, gate):
    """A tick without time for the rest closes nothing behind it."""
    jobs = Slow(clock, 1)
    house = House(connections, jobs, clock=clock, signals=signals, parallel=1)
    for name in "ab":
        house.held_work.keep(held(gate, name))
    house.gate_operator.open(gate, by="ann", once=True)
    house.tick.run(until=clock.monotonic() + 20)
    assert house.gates.read(gate).is_open
    house.tick.run()
    assert not house.gates.read(gate).is_open
    assert jobs.started == ["a", "b"]


def test_an_opening_gets_the_bus_ready_before_it_opens(house, gate, signals, clock):
    """Connecting takes longer than all the rest: the time of the opening is after it."""
    looks = []

    def look():
        looks.append(house.gates.read(gate).is_open)
        clock.advance(seconds=4)

    signals.on_connect, before = look, clock.now()
    opened = house.gate_operator.open(gate, by="ann").after
    assert (looks, opened.at - before, signals.sent) == ([False], timedelta(seconds=4), [(gate, 1)])
