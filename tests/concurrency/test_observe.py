"""Observations: what happened between two looks, from what processes tell of themselves."""

from dataclasses import replace
from datetime import timedelta

from shared.concurrency.fleet import FRESH, Fleet, Worker
from shared.concurrency.tuning import Depths, observe, take_reading
from tests.concurrency.conftest import NOON

MINUTE = timedelta(minutes=1)
WORKER = Worker(name="a", at=NOON + MINUTE, started_at=NOON - MINUTE, in_flight=3, done=100, busy=50.0, cpu=0.5)


def seen(before, *workers, depth=10):
    """Return what a look a minute after noon finds."""
    return observe(Depths(depth), Fleet(workers=workers), before, NOON + MINUTE)


def test_the_first_look_knows_no_rates():
    """Nothing happened since a look that was not."""
    first = seen(None, WORKER)
    assert (first.arrived, first.drained, first.observation.arrival_rate) == (0, 0, None)
    assert first.observation.latency == 0.5


def test_what_was_done_before_a_look_is_not_counted_after_it():
    """The difference of two counts, for those that were known."""
    before = take_reading(Depths(40), [replace(WORKER, done=70, busy=20.0)], NOON)
    found = seen(before, WORKER)
    assert (found.arrived, found.drained) == (0, 30)
    assert (found.observation.drain_rate, found.observation.latency) == (0.5, 1.0)


def test_a_process_that_started_since_counts_whole_and_one_that_was_forgotten_does_not():
    """What a process did before a look that did not know it is history."""
    before = take_reading(Depths(0), [], NOON)
    assert seen(before, WORKER).drained == 0
    assert seen(before, replace(WORKER, started_at=NOON + timedelta(seconds=1))).drained == 100


def test_a_process_that_rests_by_now_has_worked_since():
    """Its counts are in, its load is not."""
    before = take_reading(Depths(0), [replace(WORKER, done=0, busy=0.0)], NOON)
    found = seen(before, replace(WORKER, at=NOON + MINUTE - 2 * FRESH))
    assert (found.drained, found.observation.in_flight, found.observation.cpu) == (100, None, None)


def test_messages_that_were_not_told_of_make_no_negative_arrivals():
    """A process tells late."""
    assert seen(take_reading(Depths(500), [], NOON), depth=10).arrived == 0
