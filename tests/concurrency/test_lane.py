"""The urgent lane's row: who overtakes, what is written before a put, and when the tick removes it."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.azure.meter import tally_requests
from shared.concurrency.fleet import ANNOUNCED_FOR, LEFT, LaneRow, is_late, may_forget, must_announce
from tests.concurrency.conftest import NOON
from tests.concurrency.test_fleet import requests


@pytest.mark.parametrize(
    ("seconds", "latency", "tasks", "is_so"),
    [
        (164, 3.0, 2, True),
        (165, 3.0, 2, False),
        (-1, 3.0, 2, True),
        (17, 3.0, 20, False),
        (16, 3.0, 20, True),
        (-1, None, 2, False),
        (-1, 3.0, 0, False),
    ],
)
def test_a_job_is_late_if_what_waits_and_its_own_chunks_end_too_late(seconds, latency, tasks, is_so):
    """110 messages of three seconds are done after 165 s by two tasks; without a measurement nothing is predicted."""
    assert is_late(NOON + timedelta(seconds=seconds), 110, latency, tasks, NOON) == is_so


def test_a_process_predicts_by_what_the_others_reported(fleet):
    """Seconds a message by the processes that work now, tasks by the decision."""
    worker, process = fleet.process(), fleet.process()
    fleet.put(8)
    seconds = 100 * 2 / fleet.tuning().run().tasks
    for _ in range(4):
        with worker.gauge.working():
            fleet.clock.advance(seconds=2)
    worker.look()
    process.look()
    assert process.is_late(fleet.clock.now() + timedelta(seconds=seconds - 1), 100)
    assert not process.is_late(fleet.clock.now() + timedelta(seconds=seconds + 1), 100)
    fleet.clock.advance(minutes=1)
    process.look()
    assert not process.is_late(fleet.clock.now() + timedelta(seconds=1), 100)


@given(st.integers(0, 600), st.integers(0, 10))
def test_a_row_that_need_not_be_written_is_there_when_the_put_comes(left, depth):
    """A put comes within a minute of the check; clocks may differ by a minute more."""
    lane = LaneRow(NOON + timedelta(seconds=left))
    if not must_announce(lane, NOON):
        assert not may_forget(lane, depth, NOON + timedelta(minutes=2))
    assert must_announce(None, NOON)
    assert not must_announce(LaneRow(NOON + ANNOUNCED_FOR), NOON)


def test_processes_learn_of_the_lane_with_the_decision(fleet):
    """By the one request that they make anyway."""
    one, other = fleet.process(), fleet.process()
    other.look()
    one.announce()
    assert (one.may_hold_urgent(), other.may_hold_urgent()) == (True, False)
    fleet.clock.advance(seconds=11)
    with tally_requests() as tally:
        other.look()
    assert other.may_hold_urgent()
    assert requests(tally) == {"table": 1}


def test_one_announcement_serves_for_minutes(fleet):
    """And the next one comes before its time is over."""
    process = fleet.process()
    with tally_requests() as tally:
        for _ in range(10):
            process.announce()
            fleet.clock.advance(seconds=(ANNOUNCED_FOR - LEFT).total_seconds() / 10)
    assert requests(tally) == {"table": 1}
    fleet.clock.advance(seconds=1)
    process.announce()
    assert fleet.table.read().lane.until == fleet.clock.now() + ANNOUNCED_FOR


def test_the_tick_removes_the_row_of_an_empty_lane_when_no_put_may_come(fleet):
    """Not before, and not while the lane holds something; then no task asks any more."""
    held = [1]
    tuning, process = fleet.tuning(lane=lambda: held[0]), fleet.process()
    process.announce()
    tuning.run()
    assert fleet.table.read().decision.observation.depth == 1
    held[0] = 0
    tuning.run()
    assert fleet.table.read().lane is not None
    fleet.clock.advance(seconds=ANNOUNCED_FOR.total_seconds())
    held[0] = 2
    tuning.run()
    assert fleet.table.read().lane is not None
    held[0] = 0
    tuning.run()
    assert fleet.table.read().lane is None
    process.look()
    assert not process.may_hold_urgent()


def test_a_row_that_was_written_meanwhile_stays(fleet):
    """Whoever wrote it puts messages now."""
    process = fleet.process()
    process.announce()
    seen = fleet.table.read().lane
    fleet.clock.advance(seconds=ANNOUNCED_FOR.total_seconds())

    def look():
        process.announce()
        return 0

    fleet.tuning(lane=look).run()
    assert fleet.table.read().lane.until > seen.until
    fleet.table.forget(seen)
    seen = fleet.table.read().lane
    for _ in range(2):
        fleet.table.forget(seen)
        assert fleet.table.read().lane is None


def test_a_lane_whose_row_was_lost_is_found_once_an_hour(fleet):
    """And it is not asked at all in the other minutes."""
    asked = []
    tuning = fleet.tuning(lane=lambda: asked.append(fleet.clock.now().minute) or 3)
    fleet.clock.advance(minutes=1)
    for _ in range(59):
        tuning.run()
        assert fleet.table.read().lane is None
        fleet.clock.advance(minutes=1)
    tuning.run()
    assert (asked, fleet.table.read().lane.until) == ([0], fleet.clock.now() + ANNOUNCED_FOR)
