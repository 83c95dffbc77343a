"""The fleet on a real table: what processes and the tick tell each other, and what it costs."""

from collections import Counter
from contextlib import contextmanager
from threading import Thread

import pytest

from shared import __version__
from shared.azure.connections import Connections
from shared.azure.meter import tally_requests
from shared.azure.pushback import STORAGE
from shared.concurrency.fleet import GOVERNOR, FleetChange, Worker, worker_row
from shared.concurrency.following import Foresight
from shared.concurrency.rules import Unchanged
from shared.concurrency.tuning import Stretch
from shared.errors import RulesRefusedError
from shared.watch import RULES, NeedKind
from tests.concurrency.conftest import NOON

TEN = "version: 1\nrules:\n- {name: ten, tasks: 10}\n"
EIGHT = "version: 1\nmost: 8\nrules:\n- {name: eight, tasks: 8}\n"
HUNDRED = "version: 1\nrules:\n- {name: hundred, tasks: 100}\n"
THREE = "version: 1\nrules:\n- {name: three, tasks: 3}\n"
FIVE = "version: 2\nrules:\n- {name: five, tasks: 5}\n"


def requests(tally):
    """Return how many requests of each service and operation were counted."""
    counted = Counter()
    for (kind, _cause), number in tally.counts().items():
        counted[kind.service] += number
    return dict(counted)


@contextmanager
def _nobody(_messages, _coming):
    yield


# The tick.


def test_decisions_are_written_when_they_change_and_only_then(fleet):
    """0, what the rules want, 0: three rows, each with its reason; looks in between write nothing."""
    tuning = fleet.tuning()
    tuning.run()
    fleet.put(7)
    for _ in range(3):
        fleet.clock.advance(minutes=1)
        tuning.run()
    fleet.empty()
    fleet.clock.advance(minutes=1)
    tuning.run()
    found = fleet.table.history(10)
    assert [one.tasks for one in found] == [0, 10, 0]
    assert [one.reason for one in found][:2] == ["the queues are empty", "rule 'little': 10 tasks"]
    assert fleet.table.read().decision == found[0]


def test_what_a_look_of_the_tick_costs(fleet):
    """The fleet, the rules, one depth a queue; a row and a line of the trace when there is something to tell."""
    tuning = fleet.tuning()
    tuning.run()
    with tally_requests() as quiet:
        tuning.run()
    fleet.put(1)
    fleet.clock.advance(minutes=1)
    with tally_requests() as busy:
        tuning.run()
    assert requests(quiet) == {"table": 1, "blob": 1, "queue": 1}
    assert requests(busy) == {"table": 2, "blob": 1, "queue": 1}
    assert len(fleet.recorded) == 1


def test_of_two_ticks_one_decides(fleet):
    """The decision of the first one stands; the other one's changes nothing."""
    seen = fleet.table.read()
    decision = fleet.tuning().run()
    assert not fleet.table.commit(seen, FleetChange(decision=decision))
    assert len(fleet.table.history(10)) == 1


def test_new_rules_are_followed_without_a_restart(fleet):
    """The tick finds them, and a process finds them at its next look."""
    process, tuning = fleet.process(), fleet.tuning()
    fleet.put(30)
    assert tuning.run().tasks == 10
    fleet.rules.put(THREE)
    fleet.clock.advance(seconds=60)
    assert tuning.run().tasks == 3
    process.look()
    assert process.rule(1000) == 3
    fleet.rules.put(FIVE)
    fleet.clock.advance(seconds=60)
    tuning.run()
    fleet.clock.advance(seconds=11)
    process.look()
    assert (process.rule(1000), process.cap()) == (5, 5)
    assert [one.rules_version for one in fleet.table.history(5)] == [2, 1, 0]


def test_broken_rules_change_nothing(fleet):
    """A slip of an operator who writes the blob by hand leaves those in force."""
    tuning = fleet.tuning()
    fleet.put(30)
    fleet.rules.put(THREE)
    tuning.run()
    fleet.connections.blobs.get_blob_client("settings", "rules").upload_blob(b"version: soon", overwrite=True)
    assert tuning.run().tasks == 3
    need = fleet.watch.find(NeedKind.RULES_UNREADABLE, RULES)
    assert need.is_grave
    fleet.rules.put(THREE)
    tuning.run()
    assert fleet.watch.find(NeedKind.RULES_UNREADABLE, RULES) is None


def test_rules_that_are_taken_away_are_no_more(fleet):
    """Then the built-in ones apply."""
    tuning = fleet.tuning()
    fleet.put(30)
    fleet.rules.put(THREE)
    tuning.run()
    fleet.connections.blobs.get_blob_client("settings", "rules").delete_blob()
    assert tuning.run().tasks == 10
    assert fleet.table.read().in_force is None


def test_the_budget_and_the_top_up_are_asked(fleet):
    """The budget's term caps it; permits are topped up by what was decided, and only while something is there."""
    topped = []
    tuning = fleet.tuning(budget=lambda _now, _tasks: 3, top_up=lambda depth, tasks: topped.append((depth, tasks)) or 1)
    tuning.run()
    fleet.put(9)
    assert (tuning.run().tasks, topped) == (3, [(9, 3)])


def test_the_age_of_the_oldest_message_is_asked_for_when_a_rule_looks_at_it(fleet):
    """It costs a request, so nobody asks for nothing."""
    fleet.rules.put(
        "version: 1\nrules:\n- {name: old, when: {oldest_age: {at_least: 1h}}, tasks: 9}\n- {name: b, tasks: 1}"
    )
    fleet.put(20)
    fleet.clock.advance(days=30000)
    assert fleet.tuning().run().tasks == 9


def test_work_that_waits_long_is_told_of_every_quarter_of_an_hour(fleet, caplog):
    """Nobody has to write a rule for that, and a minute later nobody asks again."""
    tuning = fleet.tuning()
    fleet.put(1)
    fleet.clock.advance(days=30000)
    tuning.run()
    assert "sluice.work.waiting" in caplog.text
    caplog.clear()
    fleet.clock.advance(minutes=1)
    tuning.run()
    assert "sluice.work.waiting" not in caplog.text


def test_rates_come_from_what_processes_tell(fleet):
    """40 messages were there, 25 were done, 5 came: the trace says so, and the latency is that of the work."""
    tuning, process = fleet.tuning(), fleet.process()
    fleet.put(40)
    tuning.run()
    for _ in range(25):
        with process.gauge.working():
            fleet.clock.advance(seconds=2)
            process.look()
    fleet.empty()
    fleet.put(20)
    fleet.clock.advance(seconds=10)
    # The rest is told when nobody looks any more.
    fleet.later.pop()()
    decision = tuning.run()
    assert fleet.recorded == [
        Stretch(
            at=NOON,
            seconds=60,
            arrived=5,
            drained=25,
            depth=20,
            tasks=decision.tasks,
            latency=2.0,
            cpu=0.0,
            in_flight=0,
            binding="rule",
            processes=1,
        )
    ]
    assert decision.observation.drain_rate == pytest.approx(25 / 60)


def test_processes_that_ended_are_forgotten(fleet):
    """An hour after they were heard of last."""
    process = fleet.process()
    with process.gauge.working():
        process.look()
    assert [one.version for one in fleet.table.read().workers] == [__version__]
    fleet.clock.advance(minutes=61)
    fleet.tuning().run()
    assert fleet.table.read().workers == []


# A process.


def test_who_knows_no_rules_waits_for_those_that_another_thread_reads(fleet, monkeypatch):
    """Else the first jobs of a fresh process would pass each limit, and what waits for its turn."""
    fleet.rules.put(THREE)
    fleet.tuning().run()
    process, seen, read = fleet.process(), [], fleet.table.read

    def see():
        process.look()
        seen.append(process.rule(1000))

    def read_beside(*known):
        other.start()
        # Who does not wait sees nothing before this ends.
        other.join(0.2)
        assert seen == []
        return read(*known)

    other = Thread(target=see)
    monkeypatch.setattr(process._table, "read", read_beside)
    process.look()
    other.join()
    assert seen == [3]


def test_a_process_looks_once_an_interval_and_never_while_idle(fleet):
    """One request to read, one to tell what it works on; none without work."""
    process = fleet.process()
    with tally_requests() as first:
        for _ in range(50):
            with process.gauge.working():
                process.look()
    fleet.clock.advance(seconds=5)
    with tally_requests() as none:
        process.look()
        process.read_decision()
    assert (requests(first), requests(none)) == ({"table": 2}, {})
    fleet.clock.advance(hours=1)
    with tally_requests() as idle:
        for rest in fleet.later:
            rest()
    # What was done after the last look is told, and then it is silent.
    assert requests(idle) == {"table": 2}
    fleet.clock.advance(hours=1)
    with tally_requests() as silent:
        fleet.later[-1]()
    assert requests(silent) == {}


def test_a_process_without_storage_runs_one_task_of_the_fleet(fleet, provisioned):
    """Nothing was ever decided that it could know of."""
    with Connections(provisioned.connection_string.replace("127.0.0.1:", "127.0.0.1:1")) as away:
        fleet.table._table = away.tables.get_table_client("decisions")
        process = fleet.process()
        process.notice_work()
        assert process.cap() == 1


def test_a_process_that_loses_the_storage_keeps_to_what_was_decided(fleet, provisioned):
    """Concurrency is no reason to fail."""
    fleet.put(5)
    fleet.tuning().run()
    process = fleet.process()
    assert process.cap() == 10
    with Connections(provisioned.connection_string.replace("127.0.0.1:", "127.0.0.1:1")) as away:
        fleet.table._table = away.tables.get_table_client("decisions")
        fleet.clock.advance(seconds=11)
        assert process.cap() == 10


def test_the_rules_bind_every_process(fleet):
    """The built-in ones too, however many processes there are: what they share is the slots."""
    fleet.put(120)
    fleet.tuning().run()
    assert [fleet.process().cap() for _ in range(2)] == [50, 50]


def test_work_without_a_decision_is_decided_upon_by_who_has_it(fleet):
    """Messages came that no dispatch put: the depth is read, once, and what was decided is there for the others."""
    fleet.tuning().run()
    fleet.put(120)
    # Decisions of one moment have no order.
    fleet.clock.advance(seconds=1)
    topped = []
    tuning = fleet.tuning(top_up=lambda depth, tasks: topped.append((depth, tasks)) or 1)
    process, other = fleet.process(decide=tuning.catch_up), fleet.process()
    assert process.cap() == 1
    with tally_requests() as first:
        process.notice_work()
        process.notice_work()
    assert requests(first) == {"queue": 1, "table": 2, "blob": 1}
    other.notice_work()
    assert (process.cap(), other.cap(), topped) == (50, 50, [(120, 50)])
    assert [one.tasks for one in fleet.table.history(5)] == [50, 0]


def test_of_two_that_decide_at_once_both_follow_the_one_that_was_written(fleet):
    """The other decision was never in force, and might be a larger one."""
    fleet.rules.put("version: 1\nrules:\n- {name: each, messages_each: 1}")
    fleet.tuning().run()
    late = fleet.tuning()
    read = late.fleet.read

    def read_early(known=None):
        late.fleet = fleet.table
        found = read(known)
        fleet.tuning().foresee(3)
        return found

    class Early:
        read = staticmethod(read_early)

    late.fleet = Early
    assert late.foresee(60).tasks == 3


def test_a_push_back_that_one_process_saw_slows_all_of_them(fleet):
    """The one at once, the others at their next look, the fleet's decision at the next tick."""
    fleet.rules.put(HUNDRED)
    fleet.put(1)
    tuning, one, other = fleet.tuning(), fleet.process(), fleet.process()
    tuning.run()
    one.look()
    other.look()
    one.pushback.slow(STORAGE)
    assert (one.cap(), other.cap(), one.puts(32)) == (50, 100, 16)
    fleet.clock.advance(seconds=10)
    one.look()
    other.look()
    assert other.pushback.governors()[STORAGE].share == 0.5
    decision = tuning.run()
    assert (decision.binding, decision.tasks) == (GOVERNOR, 50)
    assert "storage pushes back, 50% of the full rate" in decision.reason
    assert one.cap() == 50


@pytest.mark.parametrize("resource", ["storage", "bus", "bus/results"])
def test_work_keeps_to_every_resource_that_it_uses(fleet, resource):
    """Messages in work, puts and permits: each is held back by storage, by the bus and by the queue of results."""
    fleet.rules.put(EIGHT)
    fleet.put(1)
    fleet.tuning().run()
    process = fleet.process()
    full = (process.puts(8), process.cap())
    process.pushback.slow(resource)
    assert (process.puts(8), process.cap()) == tuple(number // 2 for number in full)


def test_a_queue_of_the_bus_that_work_does_not_use_slows_no_work(fleet):
    """The fleet knows of it, by a row whose key the table takes, and decides as if nothing were slow."""
    process, tuning = fleet.process(), fleet.tuning()
    full = (process.puts(8), process.cap())
    fleet.clock.advance(seconds=11)
    process.pushback.slow("bus/orders")
    process.look()
    assert (process.puts(8), process.cap()) == full
    fleet.put(100)
    decision = tuning.run()
    assert (decision.binding, decision.terms["governor"]) == ("rule", fleet.table.read().rules.most)
    assert tuning.foresee(1).terms["governor"] == fleet.table.read().rules.most
    assert {name: one.share for name, one in fleet.table.read().governors.items()} == {"bus/orders": 0.5}
    assert tuning.pushback.governors()["bus/orders"].share == 0.5


def test_who_is_woken_knows_what_is_allowed_before_it_takes_anything(fleet):
    """A new process, whose first question is the cap."""
    fleet.put(100)
    fleet.tuning(budget=lambda _now, _tasks: 7).run()
    assert fleet.process().cap() == 7


def test_rules_that_look_at_more_than_the_depth_bind_permits_too(fleet):
    """What the tick observed last is what a dispatch asks the rules with."""
    fleet.rules.put(
        "version: 1\nrules:\n- {name: hot, when: {latency: {at_least: 1s}}, tasks: 3}\n- {name: b, tasks: 9}"
    )
    fleet.put(50)
    worker = fleet.process()
    with worker.gauge.working():
        fleet.clock.advance(seconds=2)
    worker.look()
    fleet.tuning().run()
    asking = fleet.process()
    asking.look()
    assert asking.rule(1000) == 3


def test_the_fleet_is_back_at_the_full_rate_after_the_storm(fleet):
    """Used and undisturbed, it grows; the decision follows, with a row for each step."""
    fleet.rules.put(HUNDRED)
    fleet.put(1)
    tuning, process = fleet.tuning(), fleet.process()
    process.pushback.slow(STORAGE)
    process.look()
    assert tuning.run().tasks == 50
    fleet.clock.advance(seconds=60)
    assert tuning.run().tasks == 100
    fleet.clock.advance(seconds=11)
    process.look()
    assert process.cap() == 100
    assert [one.tasks for one in fleet.table.history(5)] == [100, 50]


# The size of payloads.


LARGE = """
version: 1
rules:
- {name: large, when: {payload_bytes: {at_least: 1000000}}, tasks: 2}
- {name: other, tasks: 9}
"""


def test_a_burst_of_large_payloads_is_decided_upon_by_its_dispatch(fleet):
    """The dispatch knows what its workers will read, so no request is needed to know it."""
    fleet.rules.put(LARGE)
    fleet.tuning().run()
    tuning, process = fleet.tuning(), fleet.process()
    foresight = Foresight(following=process, decide=tuning.foresee, wake=_nobody, clock=fleet.clock)
    with tally_requests() as first, foresight(100, 500, 2_000_000.0):
        pass
    assert requests(first) == {"table": 3, "blob": 1}
    decision = fleet.table.read().decision
    assert (decision.tasks, decision.observation.payload_bytes) == (2, 2_000_000.0)


def test_a_tick_knows_the_size_from_the_reports_and_else_from_the_last_decision(fleet):
    """The mean of the chunks that were read since the tick before; without one what the dispatch said, while there is work."""
    fleet.rules.put(LARGE)
    tuning, worker = fleet.tuning(), fleet.process()
    fleet.put(3)
    tuning.foresee(3, 2_000_000.0)
    assert tuning.run().observation.payload_bytes == 2_000_000.0
    for stored in (100, 300):
        with worker.gauge.working():
            worker.gauge.weigh(stored, 1)
    fleet.clock.advance(seconds=11)
    worker.look()
    decision = tuning.run()
    assert (decision.tasks, decision.observation.payload_bytes) == (9, 200.0)
    fleet.empty()
    assert tuning.run().observation.payload_bytes is None


def test_a_report_of_an_earlier_version_is_read(fleet):
    """It has no sizes."""
    row = worker_row(Worker(name="old", at=NOON, started_at=NOON, in_flight=1, done=3, busy=1.5))
    fleet.connections.tables.get_table_client("decisions").create_entity(
        {name: value for name, value in row.items() if name not in {"chunks", "stored"}}
    )
    [found] = fleet.table.read().workers
    assert (found.done, found.chunks, found.stored) == (3, 0, 0)


# Rules in their blob.


def test_rules_are_read_once_and_then_only_when_they_changed(fleet):
    """The blob's ETag is the condition."""
    assert fleet.rules.look(None) is None
    fleet.rules.put(TEN)
    found = fleet.rules.look(None)
    assert found.text == TEN
    assert fleet.rules.look(found.etag) == Unchanged()


def test_a_version_is_one_text_for_ever(fleet):
    """The same rules again are no mistake; an older version, and another text of a version, are."""
    fleet.rules.put(TEN)
    fleet.rules.put(TEN)
    fleet.rules.put(FIVE)
    with pytest.raises(RulesRefusedError, match="give them version 3"):
        fleet.rules.put(TEN)
    fleet.connections.blobs.get_blob_client("settings", "rules").delete_blob()
    with pytest.raises(RulesRefusedError, match="version 2 belongs to other rules"):
        fleet.rules.put(FIVE.replace("tasks: 5", "tasks: 6"))
    assert (fleet.rules.text(1), fleet.rules.text(2), fleet.rules.text()) == (TEN, FIVE, None)


# Before a burst.


def test_a_burst_has_its_decision_when_it_is_put(fleet):
    """0, what the rules want, 0, each with its reason, although the burst is over before the next tick."""
    tuning, process = fleet.tuning(), fleet.process()
    foresight = Foresight(following=process, decide=tuning.foresee, wake=_nobody, clock=fleet.clock)
    tuning.run()
    fleet.clock.advance(seconds=20)
    with tally_requests() as first, foresight(100, 5000):
        pass
    with tally_requests() as further, foresight(100, 4900):
        pass
    fleet.clock.advance(seconds=40)
    tuning.run()
    assert (requests(first), requests(further)) == ({"table": 3, "blob": 1}, {})
    found = fleet.table.history(5)
    assert [one.tasks for one in found] == [0, 100, 0]
    assert found[1].observation.depth == 5000


def test_a_put_that_is_foreseen_already_decides_nothing(fleet):
    """A few more messages than before need no other decision."""
    tuning, process = fleet.tuning(), fleet.process()
    foresight = Foresight(following=process, decide=tuning.foresee, wake=_nobody, clock=fleet.clock)
    with foresight(100, 5000):
        pass
    fleet.clock.advance(seconds=20)
    with tally_requests() as again, foresight(100, 300):
        pass
    assert requests(again) == {"table": 1}
    assert len(fleet.table.history(5)) == 1


def test_a_put_goes_on_where_nothing_can_be_decided(fleet, provisioned):
    """Whoever cannot read the decisions wakes tasks all the same."""
    with Connections(provisioned.connection_string.replace("127.0.0.1:", "127.0.0.1:1")) as away:
        fleet.table._table = away.tables.get_table_client("decisions")
        woken = []

        @contextmanager
        def wake(messages, coming):
            yield woken.append((messages, coming))

        foresight = Foresight(following=fleet.process(), decide=fleet.tuning().foresee, wake=wake, clock=fleet.clock)
        with foresight(1, 7):
            pass
    assert woken == [(1, 7)]


def test_a_tick_that_looked_before_another_decided_changes_nothing(fleet):
    """Also where there was a decision before both of them."""
    tuning = fleet.tuning()
    tuning.run()
    seen = fleet.table.read()
    fleet.put(3)
    fleet.clock.advance(minutes=1)
    decided = tuning.run()
    assert not fleet.table.commit(seen, FleetChange(decision=decided))
    assert fleet.table.read().decision.tasks == 10
    assert len(fleet.table.history(10)) == 2


def test_a_process_knows_by_its_next_look_which_messages_are_dropped(fleet):
    """Those with a lower number than the halt row. It makes no request for it, and others make none more."""
    first, second = fleet.process(), fleet.process()
    first.look()
    fleet.table.halt("wrong", 2)
    assert not first.is_halted("wrong", 1)
    fleet.clock.advance(seconds=11)
    first.look()
    assert [first.is_halted("wrong", halts) for halts in (0, 1, 2)] == [True, True, False]
    assert not first.is_halted("other", 0)
    second.look()
    fleet.table.lift("wrong")
    fleet.table.lift("wrong")
    assert second.is_halted("wrong", 1)
    fleet.clock.advance(seconds=11)
    second.look()
    assert not second.is_halted("wrong", 1)


def test_a_long_chunk_of_waiting_calls_has_the_reading_made_beside(fleet):
    """Once in ten seconds, on another thread: its calls go on meanwhile."""
    process = fleet.process()
    process.look()
    fleet.table.halt("wrong", 1)
    fleet.later.clear()
    process.look_beside()
    assert fleet.later == []
    fleet.clock.advance(seconds=11)
    for _ in range(3):
        process.look_beside()
    (look,) = fleet.later
    assert not process.is_halted("wrong", 0)
    look()
    assert process.is_halted("wrong", 0)
    fleet.table.lift("wrong")
