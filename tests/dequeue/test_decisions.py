"""The decisions of a listener, over plain data: back-off, size of a receive, rotation, sample."""

import math
import random

import pytest
from hypothesis import given, strategies as st

from shared.dequeue.receiving import HandlingTime, receive_size
from shared.dequeue.task import BackOff, Listening, pull, push
from shared.dequeue.work_queue import DepthSample, Partitions
from shared.errors import StorageUnavailableError
from tests.dequeue.memory_queue import ManualClock

depths, tasks = st.integers(0, 100_000), st.integers(1, 500)


@given(st.integers(1, 60), st.floats(80, 120))
def test_the_back_off_is_mizonovs_formula(empties, part):
    """Minimum + (2^n - 1) x a random part of 80 to 120 % of the step, never above the maximum."""
    backoff = BackOff(shortest=0.05, longest=1.0, step=0.1)
    asked = []
    delay = backoff.delay(empties, lambda low, high: asked.append((low, high)) or part / 1000)
    assert delay == pytest.approx(min(0.05 + (2 ** min(empties, 40) - 1) * part / 1000, 1.0))
    assert asked == [pytest.approx((0.08, 0.12))]


def test_tasks_that_begin_together_come_apart():
    """Each draws its own random part, so that they neither poll nor end at the same moments."""
    hook = pull(BackOff(longest=60.0), random.Random(4).uniform)
    assert len({round(hook(3).delay, 6) for _ in range(20)}) == 20


def test_a_task_may_end_at_the_longest_interval_and_not_before():
    """The hook of pull mode says so with its delay; that of push mode at the first empty receive."""
    hook = pull(BackOff(shortest=0.0, longest=1.0, step=0.1), lambda low, high: 0.1)
    rests = [hook(empties) for empties in range(1, 6)]
    assert [rest.stop for rest in rests] == [False, False, False, True, True]
    assert (push(1).stop, push(1).delay) == (True, 0.0)


@pytest.mark.parametrize("wrong", [{"longest": 0.0}, {"shortest": 2.0}, {"step": 0.0}, {"shortest": -1.0}])
def test_intervals_that_make_no_sense_are_refused(wrong):
    """At once, and not when the queue is empty for the first time."""
    with pytest.raises(ValueError, match="is invalid: expected"):
        BackOff(**wrong)


@given(depths, tasks)
def test_a_receive_takes_its_tasks_share(depth, count):
    """clamp(ceil(depth / tasks), 1, 32), as long as the pace is unknown."""
    assert receive_size(depth, count, pace=None, seconds=15) == min(max(math.ceil(depth / count), 1), 32)


@given(depths, tasks, st.floats(0.001, 600), st.floats(-10, 300))
def test_a_receive_takes_no_more_than_can_be_run_in_time(depth, count, pace, seconds):
    """At least one, since otherwise nobody would take it; beyond that nothing that would only wait."""
    size = receive_size(depth, count, pace=pace, seconds=seconds)
    assert 1 <= size <= 32
    assert size == 1 or size * pace <= seconds


def test_the_pace_follows_what_messages_take():
    """The first one sets it, later ones pull it along."""
    pace = HandlingTime()
    assert pace.seconds is None
    pace.note(1.0)
    for _ in range(30):
        pace.note(3.0)
    assert 2.9 < pace.seconds < 3.0


def test_every_partition_has_its_turn_before_any_has_another():
    """Four queues, from the third on: in rotation, so that none starves."""
    partitions = Partitions(["a", "b", "c", "d"], first=2)
    assert [partitions.next() for _ in range(8)] == ["c", "d", "a", "b"] * 2


def test_a_poller_rests_after_a_whole_round_of_empty_queues():
    """One of three that is empty is no reason to rest; three in a row are."""
    partitions = Partitions(["a", "b", "c"])
    assert [partitions.note_empty("a", in_a_row, ends=False) for in_a_row in (1, 2, 3)] == [False, False, True]


def test_a_drain_asks_no_queue_again_that_was_empty():
    """Its tasks share the knowledge: one empty receive a queue, whoever makes it."""
    partitions = Partitions(["a", "b"])
    assert partitions.note_empty("a", 1, ends=True) is False
    assert [partitions.next() for _ in range(2)] == ["b", "b"]
    assert partitions.note_empty("b", 1, ends=True) is True
    assert partitions.next() is None


def test_one_depth_sample_serves_everybody_for_an_interval():
    """A hundred questions within an interval are one request."""
    clock, readings = ManualClock(), iter([7, 9])
    sample = DepthSample(lambda: next(readings), clock, 5.0)
    assert {sample.depth() for _ in range(100)} == {7}
    clock.advance(5)
    assert sample.depth() == 9


def test_a_depth_that_is_known_from_elsewhere_costs_nothing():
    """The permit says how deep it was; it is asked for after an interval only."""
    clock = ManualClock()
    sample = DepthSample(lambda: 3, clock, 30.0, first=5_000)
    assert (sample.depth(), sample.last) == (5_000, 5_000)
    clock.advance(30)
    assert sample.depth() == 3


def test_storage_that_does_not_answer_is_asked_once_an_interval_too():
    """The last answer is good enough, and tasks do not queue up behind a silent service."""
    clock, asked = ManualClock(), []

    def silent():
        asked.append(clock.monotonic())
        raise StorageUnavailableError("injected")

    sample = DepthSample(silent, clock, 5.0, first=4)
    clock.advance(6)
    assert [sample.depth() for _ in range(10)] == [4] * 10
    assert asked == [6]


def seed_rule(depth):
    """Return the tasks of Mizonov's example."""
    return 10 if depth < 100 else 50 if depth < 1000 else 100


@given(depths, st.integers(1, 200), st.integers(1, 20))
def test_all_processes_together_keep_to_the_cap(depth, cap, processes):
    """Where there are no more processes than tasks allowed; and one poller a process is the least."""
    listening = Listening(rule=seed_rule, cap=lambda: cap, processes=processes)
    assert listening.count_wanted(depth) <= listening.most()
    assert listening.most() * processes <= max(cap, processes)
    assert listening.most() >= 1


@given(depths, st.integers(1, 20))
def test_all_processes_together_reach_the_rule(depth, processes):
    """Rounded up, and no more tasks than there are messages."""
    listening = Listening(rule=seed_rule, processes=processes)
    wanted = min(seed_rule(depth), depth)
    assert wanted <= listening.count_wanted(depth) * processes < wanted + processes
