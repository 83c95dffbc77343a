"""The flight recorder: when a tick writes a point, what it promises, and how much that costs."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from shared.app.recorder import Recorder
from shared.concurrency import Stretch
from shared.errors import StorageUnavailableError
from shared.pending import Due
from shared.watch import TICK, Need, NeedKind, Standing, TickNeeds, list_gaps
from shared.watch.points import HOUR
from tests.ledger.builders import NOON
from tests.watch.conftest import Clock, Noted, minute as at


class Kept:
    """A watch that keeps what it gets."""

    def __init__(self):
        self.points, self.spent, self.reads, self.removed = [], [], 0, 0

    def read(self):
        """Return no need."""
        self.reads += 1
        return Standing([])

    def record(self, moment, point, opened, spent):
        """Keep a point, and the cost that came with it."""
        self.points.append((moment, point, opened))
        self.spent += [] if spent is None else [(spent.at, dict(spent.amounts))]

    def remove_old(self, _now):
        """Count it."""
        self.removed += 1


def record_into(watch, clock=None, spent=lambda _day: {"useful": 0.012344}):
    """Return a recorder."""
    clock = clock or Clock()
    return Recorder(watch=watch, needs=TickNeeds(watch, clock), clock=clock, read_costs=spent)


class Ticks:
    """A process that ticks."""

    def __init__(self):
        self.kept = Kept()
        self.begin()

    def begin(self):
        """Begin as another process, which remembers nothing."""
        self.recorder = record_into(self.kept)

    def tick(self, minute, *, is_busy=False):
        """Tick, with or without work."""
        if is_busy:
            self.recorder.note(Stretch(at=at(minute - 1), seconds=60.0, arrived=3, latency=0.123456, binding="rule"))
        self.recorder.run(Due(is_job_open=is_busy, at=at(minute)))

    def minutes(self):
        """Return the minutes that have a point."""
        return [round((moment - NOON).total_seconds() / 60) for moment, *_ in self.kept.points]


def test_an_idle_day_costs_what_the_design_allows():
    """A point each quarter, the needs at each hour, and one search for old rows: 121, of at most 146."""
    ticks = Ticks()
    for minute in range(24 * 60):
        ticks.tick(minute)
    assert (len(ticks.kept.points), ticks.kept.reads, ticks.kept.removed) == (96, 24, 1)
    assert ticks.minutes() == list(range(0, 24 * 60, 15))
    assert [opened is not None for *_, opened in ticks.kept.points[:5]] == [True, False, False, False, True]


@pytest.mark.parametrize("begin", range(15))
def test_no_promise_is_broken_when_work_begins_or_ends(begin):
    """Whatever minute it is: each tick runs, so no picture of it has a gap."""
    ticks = Ticks()
    for minute in range(90):
        ticks.tick(minute, is_busy=begin + 15 <= minute < begin + 23)
    points = [
        SimpleNamespace(at=moment, promised=moment + timedelta(seconds=one.promise))
        for moment, one, _ in ticks.kept.points
    ]
    hours = [SimpleNamespace(points=points, at=NOON)]
    assert list_gaps(hours, NOON, at(89)) == []
    assert set(range(begin + 15, begin + 23)) <= set(ticks.minutes())
    assert len(ticks.kept.points) <= 6 + 8 + 2


@pytest.mark.parametrize("stops", range(16, 45))
def test_ticks_that_stop_for_twenty_minutes_leave_a_gap(stops):
    """With work always; while idle whenever the time without a point is longer than a quarter and its grace."""
    for is_busy in (True, False):
        ticks = Ticks()
        for minute in [*range(stops), *range(stops + 20, 100)]:
            if minute == stops + 20:
                ticks.begin()
            ticks.tick(minute, is_busy=is_busy)
        points = [
            SimpleNamespace(at=moment, promised=moment + timedelta(seconds=one.promise))
            for moment, one, _ in ticks.kept.points
        ]
        gaps = list_gaps([SimpleNamespace(points=points, at=NOON)], NOON, at(99))
        assert [gap.until for gap in gaps] == [at(stops + 20)]
        assert at(stops - 16) <= gaps[0].since <= at(stops)


def test_the_cost_of_the_day_is_read_each_ten_minutes_of_work_and_once_after_it():
    """An idle tick reads nothing. A reading that fails costs no point."""
    ticks = Ticks()
    for minute in range(90):
        ticks.tick(minute, is_busy=17 <= minute < 41)
    minutes = [round((moment - NOON).total_seconds() / 60) for moment, _ in ticks.kept.spent]
    assert (minutes, ticks.kept.spent[0][1]) == ([17, 27, 37, 60], {"useful": 0.012344})

    def fail(_day):
        raise StorageUnavailableError("no answer")

    ticks = Ticks()
    ticks.recorder.read_costs = fail
    ticks.tick(0, is_busy=True)
    assert (len(ticks.kept.points), ticks.kept.spent) == (1, [])


def test_a_slow_timer_promises_by_its_own_turns():
    """One each ten minutes is no silence."""
    ticks = Ticks()
    for minute in range(0, 120, 10):
        ticks.tick(minute, is_busy=minute >= 30)
    assert [point.promise for _, point, _ in ticks.kept.points][-1] == 20 * 60
    assert len(ticks.kept.points) >= 10


def test_a_point_has_four_digits():
    """It is small, and a trace is made from it."""
    ticks = Ticks()
    ticks.tick(5, is_busy=True)
    ((_, point, _),) = ticks.kept.points
    assert (point.latency, point.arrived, point.seconds, point.binding) == (0.1235, 3, 60.0, "rule")


def test_old_rows_are_removed_once_a_day():
    """At four in the morning."""
    ticks = Ticks()
    for minute in range(0, 48 * 60, 5):
        ticks.tick(minute)
    assert ticks.kept.removed == 2
    assert timedelta(hours=1) == HOUR


def test_ticks_that_fail_twice_need_a_person_until_one_does_not():
    """A failure that passes by itself wakes nobody, and a tick that is well makes no request."""
    noted, clock = Noted(), Clock()
    recorder = record_into(noted, clock)
    seen = []
    for failed in ("", "gate 'x': broken", "", "a", "b", "c", "", "", "a"):
        recorder.judge(failed)
        seen.append(noted.said().get(f"tick fails {TICK}", ""))
    assert seen == ["", "", "", "", "b", "c", "", "", ""]
    assert noted.requests == 3


def test_a_new_process_ends_what_a_former_one_told_of_the_tick():
    """It reads the needs at the full hour. What is over by its own time is off the list then, too."""
    failing = Need(NeedKind.TICK_FAILS, TICK, "x", NOON, until=at(120))
    stopped = [
        Need(NeedKind.REPLAY_STOPPED, name, "x", NOON, until=until) for name, until in (("old", at(-1)), ("new", at(9)))
    ]
    kept, ended = Kept(), []
    kept.read = lambda: Standing([failing, *stopped])
    kept.end = lambda kind, about, _at: ended.append((kind, about))
    recorder = record_into(kept)
    recorder.run(Due(at=NOON))
    recorder.judge("")
    recorder.judge("")
    assert ended == [(NeedKind.REPLAY_STOPPED, "old"), (NeedKind.TICK_FAILS, TICK)]
