"""What rows of hours say about the past: gaps, how long a need stood, and what was at a moment."""

from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from shared.watch import (
    Act,
    Gap,
    Hour,
    Need,
    NeedKind,
    Point,
    PointAt,
    Stood,
    list_gaps,
    list_stood,
)
from shared.watch.past import find_moment, is_down, is_silent
from shared.watch.points import HOUR, Change, OpenedNeeds, hour_of
from tests.ledger.builders import NOON
from tests.watch.conftest import minute as at

QUARTER = 15 * 60 + 120


def point(minute, promise=180):
    """Return the point of a minute."""
    moment = at(minute)
    return PointAt(moment, moment + timedelta(seconds=promise), Point(second=0, promise=promise))


def hour(*points, begin=NOON, **parts):
    """Return an hour with these points."""
    return Hour(begin, tuple(points), **parts)


def stood(kind, about, first, last):
    """Return a grave need that stood."""
    return Stood(kind, about, first=first, last=last, is_grave=True)


def began(minute, about="a", kind=NeedKind.PAUSED):
    """Return the mark of a need that began."""
    return Change(at(minute), kind, about, is_grave=True, begins=True)


def ended(minute, about="a", kind=NeedKind.PAUSED):
    """Return the mark of its end."""
    return Change(at(minute), kind, about, is_grave=False, begins=False)


@pytest.mark.parametrize(
    ("points", "gaps"),
    [
        # A tick each minute; an idle one each quarter; one that came late, as its promise allows.
        ([point(n) for n in range(60)], []),
        ([point(0, QUARTER), point(15, QUARTER), point(30, QUARTER), point(45, QUARTER)], []),
        ([point(0), point(4, QUARTER), point(15, QUARTER), point(30, QUARTER), point(45, QUARTER)], []),
        # It ended with work, and while idle.
        ([point(0), point(1), point(21), *map(point, range(22, 60))], [(1, 21)]),
        ([point(0, QUARTER), point(15, QUARTER), point(41, QUARTER), point(45, QUARTER)], [(15, 41)]),
        # It does not run now.
        ([point(n) for n in range(40)], [(39, 60)]),
        ([point(n) for n in range(20, 60)], [(0, 20)]),
        ([], [(0, 60)]),
    ],
)
def test_a_time_without_a_tick_is_told_from_an_idle_one(points, gaps):
    """By what the last point promised."""
    assert list_gaps([hour(*points)] if points else [], NOON, at(60)) == [Gap(at(a), at(b)) for a, b in gaps]


def test_a_gap_ends_where_the_picture_does():
    """One that began before it, and one that is older than it."""
    points = [point(0), point(30), point(32), *map(point, range(50, 60))]
    assert list_gaps([hour(*points)], at(20), at(60)) == [Gap(at(20), at(30)), Gap(at(32), at(50))]
    assert list_gaps([hour(*points)], at(49), at(51)) == [Gap(at(49), at(50))]


def test_a_long_tick_is_silent_and_not_yet_down():
    """A tick may last ten minutes, and a timer never overlaps itself."""
    last = point(0)
    found = [(is_silent(last, at(minute)), is_down(last, at(minute))) for minute in (3, 4, 5, 13, 14)]
    assert found == [(False, False), (False, False), (True, False), (True, False), (True, True)]


def test_a_need_stood_from_its_first_mark_to_its_end():
    """One that is written again stands since its first mark; an end without a begin is nothing."""
    marks = (began(5), ended(6, "b"), began(10), began(12, "c"), ended(40), began(50))
    assert list_stood([hour(changes=marks)], at(60)) == [
        stood("x-paused", "a", at(5), at(40)),
        stood("x-paused", "c", at(12), None),
        stood("x-paused", "a", at(50), None),
    ]


def test_what_a_mark_lost_is_known_at_the_next_full_hour_and_now():
    """Two names had one slot, or a process was killed."""
    opened = OpenedNeeds((("x-paused", "b", True),), {"x-paused": 1})
    hours = [hour(changes=(began(5),)), hour(begin=NOON + HOUR, opened=opened)]
    now = at(90)
    assert list_stood(hours, now) == [
        stood("x-paused", "a", at(5), at(60)),
        stood("x-paused", "b", at(60), None),
    ]
    late = Need(NeedKind.LATE, "c", "", at(89), at(70))
    assert list_stood(hours, now, [late]) == [
        stood("x-paused", "a", at(5), at(60)),
        stood("x-paused", "b", at(60), now),
        stood("z-late", "c", at(70), None),
    ]


def test_names_that_were_cut_end_nothing():
    """The hour had more needs than it names."""
    opened = OpenedNeeds((("x-paused", "b", True),), {"x-paused": 300})
    found = list_stood([hour(changes=(began(5),)), hour(begin=NOON + HOUR, opened=opened)], at(90))
    assert [(one.about, one.last) for one in found] == [("a", None), ("b", None)]


def test_a_moment_has_its_point_its_needs_and_the_acts_around():
    """And the gap that it lies in."""
    acts = (Act(at(20), "ann", "gate open", "nightly", "opened"), Act(at(59), "bob", "replay", "r", "done"))
    hours = [hour(point(0), point(1), point(30), acts=acts, changes=(began(5), ended(40)))]
    inside, quiet = find_moment(hours, at(15)), find_moment(hours, at(31))
    assert (inside.point.at, inside.gap, quiet.gap) == (at(1), Gap(at(1), at(30)), None)
    assert [one.about for one in inside.stood] == ["a"]
    assert [one.who for one in inside.acts] == ["ann"]
    assert find_moment(hours, at(45)).stood == []
    assert find_moment(hours, at(45)).gap == Gap(at(30), at(45))
    assert find_moment([], at(5)).point is None


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=20),
    st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_whatever_marks_are_lost_the_picture_ends_with_what_stands(events, reads):
    """Each mark may be lost, and a tick reads what stands at some of the full hours; no need ends before it began."""
    standing, hours = set(), {at(60 * number): ([], None) for number in range(4)}
    for number, (name, begins, is_lost) in enumerate(events):
        moment = at(11 * number + 1)
        for hour_at in hours:
            if reads[hours_index(hour_at)] and at(11 * (number - 1) + 1) < hour_at <= moment:
                names = tuple(("x-paused", one, True) for one in sorted(standing))
                hours[hour_at] = (hours[hour_at][0], OpenedNeeds(names, {"x-paused": len(names)}))
        (standing.add if begins else standing.discard)(name)
        if not is_lost:
            mark = began if begins else ended
            hours[hour_of(moment)][0].append(mark(11 * number + 1, name))
    now = at(239)
    needs = [Need(NeedKind.PAUSED, name, "", now) for name in standing]
    made = [hour(begin=begin, changes=tuple(changes), opened=opened) for begin, (changes, opened) in hours.items()]
    found = list_stood(made, now, needs)
    assert sorted(one.about for one in found if one.last is None) == sorted(standing)
    assert all(one.first <= (one.last or now) <= now for one in found)


def hours_index(moment):
    """Return which hour it is."""
    return int((moment - NOON) / HOUR)
