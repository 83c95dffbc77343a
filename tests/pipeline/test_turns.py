"""Who puts at once, who waits, and what the fleet knows of those that wait."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from shared.concurrency import FeedRow, Fleet, FleetPace
from shared.concurrency.fleet import Resting, Worker
from shared.concurrency.following import Gauge
from shared.concurrency.tuning import Depths, add_waiting
from shared.dequeue.task import FED_REST, Rest, push, push_until_fed
from shared.gate.receipts import NO_MARK
from shared.gate.state import Reading
from shared.ledger.records import JobState
from shared.pipeline.start import DirectPuts, Placed
from tests.gate.conftest import NOON, ManualClock
from tests.pipeline.test_start import waiting


def feed(until=timedelta(seconds=20), **changed):
    """Return a feeder's row."""
    return FeedRow(until=NOON + until, since=NOON, by="one", **changed)


@pytest.fixture
def full(world):
    """A world whose queues have no room."""
    world.room.left = 0
    return world


def test_a_job_without_room_waits_and_a_feeder_is_called(full, process):
    """Nothing of it is on a queue, and its submission may go."""
    one = process()
    one.accept(full.submission(250), "m1")
    assert (full.queues.sent, full.calls) == ([], [0.0])
    assert full.ledger.read(full.job).state is JobState.PLANNING
    assert waiting(one) == [full.job]


def test_where_a_feeder_lives_none_is_called(full, process):
    """By a row that was read after the ready row was written, or hardly before."""
    one, full.room.feed = process(), feed()
    one.accept(full.submission(250), "m1")
    assert (full.calls, waiting(one)) == ([], [full.job])


def test_the_part_that_fits_is_put_at_once(world, process):
    """The rest waits, from the cursor on."""
    one, world.room.left = process(), 4
    one.accept(world.submission(250), "m1")
    [row] = one.ready.read("")
    assert [message["chunk"] for message in world.queues.on("work-")] == [0, 1, 2, 3]
    assert (row.cursor, row.chunks, row.is_again) == (4, 10, False)
    assert (world.ledger.read(world.job).dispatch_cursor, waiting(one)) == (4, [world.job])


def test_what_another_process_may_have_begun_is_marked(full, process):
    """Its first chunks may be on a queue without a note."""
    one = process()
    one.plan(full.submission(250), "m1")
    assert one.starter.start(full.ledger.read(full.job)) is Placed.WAITS
    assert one.ready.read("")[0].is_again
    assert waiting(one) == [full.job]


def test_a_released_job_without_room_waits_and_its_held_row_may_go(full, process):
    """The release has nothing more to do for it."""
    one = process()
    one.accept(full.submission(250, gate="nightly"), "m1")
    [row] = full.gates.rows.values()
    assert one.starter.carry_out(row, Reading(1, is_open=True), 0.0, NO_MARK)
    assert (full.queues.sent, full.calls, waiting(one)) == ([], [0.0], [full.job])


class Asked:
    """The depth of the queues, and how often it was read."""

    def __init__(self, depth):
        self.depth, self.times = depth, 0

    def __call__(self):
        """Return it."""
        self.times += 1
        return self.depth


def room_beside(depth, *, chunks=0, limited=(), seconds=None):
    """Return what a process of a cold fleet may put, the reading of the depth, and the clock."""
    clock, asked = ManualClock(NOON), Asked(depth)
    following = SimpleNamespace(
        look=lambda: None,
        waiting=lambda: chunks,
        pace=lambda: FleetPace(10, 0, seconds),
        is_limited=limited.__contains__,
    )
    return DirectPuts(following=following, depth=asked, clock=clock), asked, clock


def test_small_jobs_are_put_without_a_request_as_long_as_they_fit():
    """What the fleet works off meanwhile has room again."""
    room, asked, clock = room_beside(0)
    assert [room.take(8, "") for _ in range(8)] == [8] * 8
    clock.advance(seconds=2)
    assert [room.take(8, "") for _ in range(4)] == [8] * 4
    assert asked.times == 0


def test_as_many_small_jobs_as_there_are_tasks_are_put_at_once():
    """Each has a chunk and a finish, however short they are. The next one has the depth read, and waits behind as many."""
    room, asked, clock = room_beside(0, seconds=0.01)
    assert [room.take(1, "") for _ in range(16)] == [1] * 16
    clock.advance(seconds=2)
    assert [room.take(1, "") for _ in range(8)] == [1] * 8
    assert asked.times == 0
    asked.depth = 28
    assert [room.take(1, ""), room.take(1, ""), asked.times] == [1, 1, 1]
    asked.depth = 31
    assert [room.take(1, ""), asked.times] == [0, 2]
    # A job of many short chunks has few finishes for them.
    assert room.take(1250, "") == 1250


def test_what_does_not_fit_has_the_depth_read():
    """A job gets the room that there is, and the next one nothing."""
    room, asked, _ = room_beside(40)
    assert [room.take(400, ""), asked.times] == [24, 1]
    asked.depth = 64
    assert [room.take(1, ""), asked.times] == [0, 2]


def test_while_others_wait_nobody_puts():
    """Else a late job would pass those that wait."""
    room, asked, _ = room_beside(0, chunks=3)
    assert [room.take(1, ""), asked.times] == [0, 0]


def test_a_limited_room_puts_nothing_by_itself():
    """The feeder alone knows how many of its chunks have not ended."""
    room, asked, _ = room_beside(0, limited={"alpha"})
    assert [room.take(1, "alpha"), room.take(1, ""), asked.times] == [0, 1, 0]


def test_the_last_task_of_a_slot_rests_while_chunks_wait():
    """Each gap of the feeder would end the fleet."""
    assert push_until_fed(lambda: 3)(1) == Rest(FED_REST, stop=True, least=1)
    assert push_until_fed(lambda: 0)(1) == push(1)


def test_waiting_chunks_count_as_depth_and_their_oldest_job_as_the_oldest_message():
    """The window keeps the queues short, so they alone would call for few tasks."""
    fleet = Fleet(feed=feed(waiting={"a": 300, "": 2}, oldest=NOON - timedelta(minutes=5)))
    assert add_waiting(Depths(32, 4.0), fleet, NOON, 1) == Depths(335, 300.0)
    assert add_waiting(Depths(32), fleet, NOON) == Depths(334, None)
    # The row of a dead feeder counts no more.
    assert add_waiting(Depths(32, 4.0), fleet, NOON + timedelta(minutes=1)) == Depths(32, 4.0)


def test_messages_that_failed_are_reported_by_room_until_they_come_again():
    """They count as depth, and no task has them."""
    clock = ManualClock(NOON)
    gauge, until = Gauge(clock), NOON + timedelta(seconds=30)
    gauge.note_failed("a", until)
    gauge.note_failed("a", until)
    counted = gauge.read()
    assert counted.resting == {"a": Resting(2, until)}
    worker = Worker(name="w", at=NOON, started_at=NOON, in_flight=0, done=2, busy=1.0, resting=counted.resting)
    fleet = Fleet(workers=[worker, worker])
    assert (fleet.resting(NOON), fleet.resting(until)) == ({"a": 4}, {})
    clock.advance(seconds=31)
    assert gauge.read().resting == {}
