"""What planned openings want of a site's counts: pure decisions, and a world of random openings, crashes and late writes."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from shared.scaling.instances import LEAD, LONGEST, PATIENCE, end_at_latest
from shared.scaling.site import Scale
from shared.scaling.warm_decisions import (
    EVERY,
    SOON,
    WATCH,
    WarmOpening,
    WarmProgress,
    WarmRecord,
    add_opening,
    decide,
    drop_opening,
    has_started,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DRAIN, RELEASE = "function:drain_work", "function:release_gate"


def opening(gate="nightly", opens_at=NOON, within=10, **fields):
    """A planned opening that has been counted."""
    within = timedelta(minutes=within)
    known = {
        "epoch": 0,
        "most": 20,
        "by": "ann",
    }
    return WarmOpening(
        **{"gate": gate, "opens_at": opens_at, "within": within, **known, "wanted": {DRAIN: 5}, **fields}
    )


def record(*openings, **fields):
    """The record of an app."""
    return WarmRecord(site="s", openings=openings, **fields)


class World:
    """A site, its record, and the minutes that pass."""

    def __init__(self, *openings, maximum=100, **counts):
        self.record, self.counts, self.maximum = (
            record(*openings),
            {f"function:{k}": v for k, v in counts.items()},
            maximum,
        )
        self.base, self.kept = dict(self.counts), []

    def check(self, now, progress=WarmProgress.WAITS):
        """Do one check, and let its change take effect."""
        known = {one.key: progress for one in self.record.openings if has_started(one, now)}
        decision = decide(self.record, Scale(self.counts, self.maximum), known, now)
        self.record = decision.record
        self.kept += decision.kept
        self.set(decision.counts)
        return decision

    def set(self, counts):
        """Change the site, as Azure or another writer does."""
        merged = {**self.counts, **counts}
        self.counts = {name: count for name, count in merged.items() if count is not None}


def test_before_its_lead_an_opening_changes_nothing():
    """And the next check is at the lead."""
    world = World(opening())
    decision = world.check(NOON - timedelta(hours=3))
    assert (decision.counts, decision.again_at, world.record.groups) == ({}, NOON - LEAD, {})


def test_instances_are_warmed_and_given_back_when_the_work_is_done():
    """To the very entry that was there, or to none; the record is empty after a late write had its time."""
    world = World(opening(wanted={DRAIN: 5, RELEASE: 1}), release_gate=0)
    world.check(NOON - LEAD)
    assert world.counts == {DRAIN: 5, RELEASE: 1}
    assert world.check(NOON + EVERY, WarmProgress.WORKS).again_at == NOON + 2 * EVERY
    world.check(NOON + 2 * EVERY, WarmProgress.ENDED)
    assert world.counts == {RELEASE: 0}
    back = world.check(NOON + 3 * EVERY)
    assert back.again_at == NOON + 3 * EVERY + WATCH
    assert world.check(back.again_at).again_at is None
    assert world.record.is_empty


def test_work_that_does_not_end_keeps_instances_no_longer_than_the_bound():
    """Three times the planned duration, and never more than the longest."""
    world = World(opening())
    world.check(NOON - LEAD)
    world.check(NOON + PATIENCE * timedelta(minutes=10) - MINUTE, WarmProgress.WORKS)
    assert world.counts == {DRAIN: 5}
    world.check(NOON + PATIENCE * timedelta(minutes=10), WarmProgress.WORKS)
    assert world.counts == {}
    assert end_at_latest(NOON, timedelta(days=30)) == NOON + LONGEST


def test_a_change_that_was_lost_is_sent_again_until_it_is_read_back():
    """The next check is a tick away until then."""
    world = World(opening())
    assert world.check(NOON - LEAD).again_at == NOON - LEAD + SOON
    world.counts = {}
    assert world.check(NOON - LEAD + SOON).counts == {DRAIN: 5}
    confirmed = world.check(NOON - LEAD + 2 * SOON)
    assert (confirmed.counts, confirmed.again_at) == ({}, NOON - LEAD + 2 * SOON + EVERY)


def test_an_operators_count_wins_and_is_not_given_back():
    """Whether it is higher or lower; the event names what is left."""
    world = World(opening(), drain_work=1)
    world.check(NOON - LEAD)
    world.check(NOON - LEAD + SOON)
    world.set({DRAIN: 30})
    assert world.check(NOON, WarmProgress.WORKS).counts == {}
    world.check(NOON + MINUTE, WarmProgress.ENDED)
    assert (world.counts, world.kept) == ({DRAIN: 30}, [(DRAIN, 30, 1)])
    assert world.record.is_empty


def test_a_count_that_an_operator_took_back_is_not_raised_again():
    """Until a later opening wants more than was taken back."""
    world = World(opening())
    world.check(NOON - LEAD)
    world.check(NOON - LEAD + SOON)
    world.set({DRAIN: None})
    assert world.check(NOON, WarmProgress.WORKS).counts == {}
    world.record = add_opening(world.record, opening("other", NOON + LEAD, wanted={DRAIN: 4}), NOON)
    assert world.check(NOON, WarmProgress.WORKS).counts == {}
    world.record = add_opening(world.record, opening("third", NOON + LEAD, wanted={DRAIN: 9}), NOON)
    assert world.check(NOON, WarmProgress.WORKS).counts == {DRAIN: 9}


def test_openings_at_one_time_share_the_largest_count():
    """When the larger ends, the smaller remains; then the base."""
    world = World(opening("a", wanted={DRAIN: 9}), opening("b", within=20, wanted={DRAIN: 4}), drain_work=2)
    world.check(NOON - LEAD)
    assert world.counts == {DRAIN: 9}
    world.check(NOON + timedelta(minutes=30), WarmProgress.WORKS)
    assert world.counts == {DRAIN: 4}
    world.check(NOON + timedelta(minutes=60), WarmProgress.WORKS)
    assert world.counts == {DRAIN: 2}


def test_a_moved_opening_takes_its_instances_along_and_a_dropped_one_gives_them_back():
    """The gate's other opening, whose time has passed, keeps its own."""
    world = World(opening())
    world.check(NOON - LEAD)
    later = opening(opens_at=NOON + timedelta(hours=2), wanted=None)
    world.record = add_opening(world.record, later, NOON - MINUTE)
    assert world.check(NOON - MINUTE).again_at == NOON - MINUTE + SOON
    assert world.counts == {}
    ran = record(opening())
    assert add_opening(ran, later, NOON).openings == (opening(), later)
    assert drop_opening(ran, "nightly", NOON) is ran
    assert drop_opening(ran, "nightly", NOON - MINUTE).openings == ()


def test_planning_the_same_opening_again_changes_nothing():
    """Also when its instances are counted already, and the gate was read at another epoch."""
    known = record(opening())
    assert add_opening(known, opening(wanted=None, epoch=3), NOON - LEAD) is known


def test_a_write_that_arrives_after_the_instances_were_given_back_is_undone():
    """The record is watched for longer than a process of the app may live."""
    world = World(opening())
    world.check(NOON - LEAD)
    world.check(NOON, WarmProgress.ENDED)
    world.check(NOON + MINUTE)
    world.set({DRAIN: 5})
    assert world.check(NOON + MINUTE + WATCH).counts == {DRAIN: None}
    assert not world.record.is_empty


@pytest.mark.parametrize(("maximum", "drain"), [(40, 30), (20, 20), (1, 1)])
def test_a_plan_fits_under_the_maximum_that_the_operator_set(maximum, drain):
    """The maximum of each function is not raised: a larger count is cut, and the others stay."""
    world = World(opening(wanted={DRAIN: 30, RELEASE: 1}), maximum=maximum, http=4)
    world.check(NOON - LEAD)
    assert (world.counts[DRAIN], world.counts[RELEASE]) == (drain, 1)


GATES = ("a", "b", "c")
ACTS = st.tuples(
    st.integers(0, 240),
    st.sampled_from(GATES),
    st.integers(1, 90),
    st.integers(1, 40),
    st.dictionaries(st.sampled_from(["function:f", "function:g", "function:h"]), st.integers(1, 30), max_size=3),
    st.booleans(),
)
#: What becomes of a check: done; ended before the record, before the sending; sent but late by minutes.
FATES = st.sampled_from(["done", "done", "done", "before record", "before sending", "after sending", "late"])


class CrashingWorld(World):
    """The same, with checks that end anywhere and changes that arrive late."""

    def __init__(self, fates, late, base):
        super().__init__(f=base, h=0)
        self.is_late, self.fates, self.late = "late" in fates, iter(fates), late * MINUTE
        self.pointers, self.arriving, self.finished = set(), [], {}
        self.last_until = self.disturbed = NOON

    def act(self, now, gate, opens_in, runs, wanted, *, is_dropped):
        """Plan an opening, or drop that of the gate."""
        planned = opening(gate, now + opens_in * MINUTE, wanted=wanted)
        due = now if self.record.groups else planned.starts_at
        if is_dropped:
            self.write(drop_opening(self.record, gate, now), due)
        else:
            self.finished[planned.key] = planned.opens_at + runs * MINUTE
            self.write(add_opening(self.record, planned, now), due)
            self.last_until = max(self.last_until, planned.until)

    def write(self, after, again_at):
        """Write the pointer, then the record."""
        if again_at:
            self.pointers.add(again_at)
        self.record = after

    def arrive(self, now):
        """Carry out the changes that are on their way for long enough."""
        for one in [one for one in self.arriving if one[0] <= now]:
            self.arriving.remove(one)
            self.set(one[1])
            self.disturbed = now

    def tick(self, now):
        """Do a check if a pointer is due, as far as it gets."""
        due = {one for one in self.pointers if one <= now}
        if not due:
            return
        started = [one for one in self.record.openings if has_started(one, now)]
        decision = decide(
            self.record, Scale(self.counts, 100), {one.key: self.progress(one, now) for one in started}, now
        )
        fate = next(self.fates, "done")
        if fate != "done":
            self.disturbed = now
        if fate == "before record":
            return
        self.write(decision.record, decision.again_at)
        if fate == "late" and decision.counts:
            self.arriving.append((now + self.late, decision.counts))
        elif fate != "before sending":
            self.set(decision.counts)
            self.assert_warm(now)
        if fate == "done":
            self.pointers -= due - {decision.again_at}

    def progress(self, one, now):
        """Return how far an opening is."""
        if now < one.opens_at:
            return WarmProgress.WAITS
        return WarmProgress.WORKS if now < self.finished[one.key] else WarmProgress.ENDED

    def assert_warm(self, now):
        """Every opening has its instances. A late lowering looks like that of an operator, who wins."""
        for one in self.record.openings:
            if has_started(one, now) and not self.is_late:
                assert all(self.counts[name] >= count for name, count in one.wanted.items())

    def assert_bounded(self, now):
        """No instance is warm after the bound, but for a check or a change that failed just now."""
        if now > self.last_until + 2 * SOON and now - self.disturbed > WATCH + 2 * SOON:
            assert self.counts == self.base


@given(st.lists(ACTS, max_size=6), st.lists(FATES, max_size=40), st.integers(0, 4), st.integers(2, 14))
def test_whatever_ends_where_all_counts_come_back_to_the_base(acts, fates, base, late):
    """Openings overlap, are moved, and cancelled; checks end anywhere; changes arrive late: the base, and in time."""
    world = CrashingWorld(fates, late, base)
    for minute in range(14 * 60):
        now = NOON + minute * MINUTE
        for at, gate, opens_in, runs, wanted, is_dropped in acts:
            if at == minute:
                world.act(now, gate, opens_in, runs, wanted, is_dropped=is_dropped)
        world.arrive(now)
        world.tick(now)
        world.assert_bounded(now)
    assert world.counts == world.base
    assert world.record.is_empty
    assert not world.pointers


def test_the_record_without_openings_is_left_only_when_every_group_is():
    """It is not empty while a count is raised: a pointer leads to it."""
    world = World(opening())
    world.check(NOON - LEAD)
    ended = replace(world.record, openings=())
    assert not ended.is_empty
    assert decide(ended, Scale(world.counts, 100), {}, NOON).again_at == NOON + SOON
