"""The decision about a chunk of which transactions are left, over plain data."""

import pytest

from shared.errors import Later, NotCalledError
from shared.pipeline.failing.put_off import LONGEST_OUTAGE, Waits, choose_due, judge_left, rank_failure, seconds_until
from shared.workloads import Left

NOW = 1_000_000.0
MOST = 12
UNCALLED, FAULT, OUT = NotCalledError("its time is over"), KeyError("a"), TimeoutError()


def judge(*failed, before=None, resting=None, **more):
    """Judge a delivery that called for these, of a chunk of which others ended."""
    known = {"ended": 7, "has_called": True, "is_outage": False, "rest": 0.0, "since": 0, "put_off": 0} | more
    left = [Left(number, error) for number, error in failed]
    return judge_left(left, before or {}, resting or {}, now=NOW, most=MOST, **known)


@pytest.mark.parametrize(("times", "pause"), [(0, 30), (1, 60), (2, 120), (3, 240), (4, 300), (10, 300)])
def test_each_try_doubles_the_pause_up_to_five_minutes(times, pause):
    """The message is hidden for so long, and the transaction is not called before."""
    found = judge((3, OUT), before={3: Waits(times, 5)})
    assert (found.left, found.seconds) == ({3: Waits(times + 1, NOW + pause)}, pause)
    assert (found.waits, found.has_faults, found.is_endless) == (True, False, False)
    assert found.is_spent == (times + 1 >= MOST)


@pytest.mark.parametrize("more", [{"ended": 0}, {"is_outage": True}])
def test_an_outage_counts_no_try_and_pauses_longer_each_time(more):
    """Nothing of the chunk ever ended, or its service answered none."""
    found = judge((3, OUT), before={3: Waits(4, 5)}, put_off=2, **more)
    assert (found.left, found.seconds) == ({3: Waits(4, NOW + 120)}, 120)
    others = judge((3, OUT), (4, UNCALLED), put_off=2, **more)
    # Those that were not called come first.
    assert (others.left, others.seconds) == ({3: Waits(0, NOW + 150), 4: Waits()}, 120)


@pytest.mark.parametrize(
    ("since", "is_endless"), [(0, False), (NOW - LONGEST_OUTAGE + 1, False), (NOW - LONGEST_OUTAGE, True)]
)
def test_an_outage_of_a_day_is_endless(since, is_endless):
    """One that has waited for a day for another reason goes on."""
    assert judge((3, OUT), since=since, is_outage=True).is_endless == is_endless
    assert not judge((3, OUT), since=since).is_endless
    assert not judge((3, UNCALLED), since=since, is_outage=True).is_endless


def test_what_a_service_says_is_obeyed():
    """It is hidden for five minutes at most, and not called before its time."""
    found = judge((3, Later(900)))
    assert (found.left, found.seconds) == ({3: Waits(1, NOW + 900)}, 300)
    assert judge((3, Later(90))).seconds == 90
    assert judge((3, Later(1)), before={3: Waits(2)}).seconds == 120


def test_a_delivery_whose_time_is_over_goes_on_at_once():
    """Unless none was called: then others have the calls. And not while the service rests."""
    assert judge((3, UNCALLED), (4, OUT)).seconds == 0
    assert judge((3, UNCALLED), has_called=False).seconds == 30
    assert judge((3, UNCALLED), rest=44.2).seconds == 45
    assert judge((3, UNCALLED), before={3: Waits(4, 9)}).left == {3: Waits(4, 9)}


def test_a_fault_alone_does_not_wait():
    """It is judged as any failure."""
    found = judge((3, FAULT))
    assert (found.waits, found.has_faults, found.is_spent) == (False, True, True)
    beside = judge((3, FAULT), (4, OUT))
    assert (beside.waits, beside.has_faults, beside.is_spent, beside.seconds) == (True, True, False, 30)


def test_a_chunk_is_not_over_while_one_of_it_rests():
    """Its failure is not known in this delivery."""
    found = judge((3, OUT), before={3: Waits(MOST - 1)}, resting={4: Waits(MOST, NOW + 20)})
    assert (found.is_spent, found.left[4], found.seconds) == (False, Waits(MOST, NOW + 20), 20)


def test_those_that_are_due_are_called_and_at_last_all():
    """Once the others have had their tries, none waits any more, so that all can end in one delivery."""
    left = {1: Waits(), 2: Waits(3, NOW + 1), 3: Waits(MOST, NOW + 1)}
    assert choose_due(left, NOW, MOST) == {1}
    assert choose_due(left, NOW + 1, MOST) == {1, 2, 3}
    assert choose_due({1: Waits(), 3: Waits(MOST, NOW + 1)}, NOW, MOST) == {1, 3}
    assert choose_due({2: Waits(3, NOW + 1)}, NOW, MOST) == frozenset()
    assert (seconds_until(left, NOW), seconds_until({2: Waits(3, NOW + 7)}, NOW)) == (0, 7)
    assert seconds_until({2: Waits(3, NOW + 9000)}, NOW) == 300


def test_a_fault_says_most():
    """It is the one that a person reads."""
    assert sorted([UNCALLED, OUT, FAULT], key=rank_failure) == [FAULT, OUT, UNCALLED]
