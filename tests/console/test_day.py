"""The day on one axis: an act, an alarm from its first to its last minute, a time without ticks; and a moment of the past."""

import re
from datetime import timedelta

import pytest

from capabilities.console.day_strip import WIDTH, draw_strip
from shared.watch import Act, Hour, Point, PointAt
from shared.watch.points import HOUR, hour_of
from tests.console.conftest import Installation
from tests.console.fillings import NOON, fill_day
from tests.console.hostile import TEXTS
from tests.console.test_pages import words
from tests.faults.memory.storage import MemoryStorage


@pytest.fixture
def own():
    """A console over storage of its own."""
    memory = MemoryStorage()
    made = Installation(memory.connection_string, memory)
    with made.connections:
        yield made


@pytest.fixture
def day(own):
    """A day: busy in the night, idle else, an opening, a paused job, and ticks that stood still for twenty minutes."""
    fill_day(own.stores)
    return own


def test_a_person_sees_the_day_without_a_script(day):
    """The opening, the paused job from its first to its last minute, the gap, the upgrade; and the same as tables."""
    reply = day.visitor().get("/")
    assert "The last 24 hours" in words(reply)
    assert "No tick is recorded from 2026-11-21 02:13:00 UTC to 2026-11-21 02:33:00 UTC ." in words(reply)
    assert "job paused night-job 2026-11-21 02:00:00 UTC 2026-11-21 04:00:00 UTC" in words(reply)
    assert "job late (notice) late-job 2026-11-21 11:00:00 UTC it stands" in words(reply)
    assert "gate open nightly dana 2026-11-21 01:00:00 UTC opened" in words(reply)
    assert "2026-11-21 01:00:00 UTC 1,000 400 100 0 0.06" in words(reply)
    assert "Requests of this time cost 0.11 USD, as far as processes have noted them: 0.11 useful." in words(reply)
    assert "06:00 version 0.5.0 ticks, before it 0.4.9" in reply.text
    assert len(re.findall(r'class="gap"', reply.text)) == 7
    # Beside the page without a strip.
    assert len(reply.text) < 40_000
    assert "tick silent" not in words(reply)


def test_the_day_costs_no_request_more_and_is_no_news(day):
    """It comes with the needs. A point alone makes no page look more often."""
    visitor = day.visitor()
    shown, first = day.count(lambda: visitor.get("/"))
    day.clock.advance(120)
    day.stores.watch.record(day.clock.now(), Point(second=0.0, promise=1020))
    again, requests = day.count(lambda: visitor.look_again("/", shown))
    assert (again.status_code, requests) == (304, 1)
    assert first <= 4
    week, more = day.count(lambda: day.visitor().get("/?hours=168"))
    assert ("The last 7 days" in words(week), "data-version=" in week.text, more <= first + 1) == (
        True,
        False,
        True,
    )
    assert day.visitor().get("/?hours=5").status_code == 400
    beside, more = day.count(lambda: day.visitor().get("/?beside=yes"))
    assert (beside.text.count('class="before"'), more <= first + 1) == (5, True)
    assert "data-version=" not in beside.text
    assert day.visitor().get("/?beside=yes&hours=168").status_code == 400


def test_a_moment_of_the_past_has_what_was_then(day):
    """Inside the need, the gap and the opening; one request each."""
    visitor = day.visitor()
    then, requests = day.count(lambda: visitor.get("/?at=2026-11-21T02:20"))
    assert requests == 1
    assert "No tick is recorded from 2026-11-21 02:13:00 UTC to" in words(then)
    assert "job paused night-job" in words(then)
    opened = words(visitor.get("/?at=2026-11-21T01:10:00Z"))
    assert "gate open nightly dana" in opened
    assert "400 waited, the oldest for" in opened
    assert "60,000 in 1 min" in opened
    assert "night-job" not in opened
    assert "Nothing is kept from before" in words(visitor.get("/?at=2020-01-01T00:00"))
    assert visitor.get("/?at=yesterday").status_code == 400


def test_a_silent_tick_is_said_within_its_promise_and_grave_after_ten_minutes(day):
    """By the time of the reading."""
    visitor, promised = day.visitor(), 17 * 60
    day.clock.advance(promised + 59)
    assert "tick silent" not in words(visitor.get("/"))
    day.clock.advance(3)
    reply = visitor.get("/")
    assert "tick silent it has written nothing since 2026-11-21 12:00:00 UTC, and promised to by 12:17:00" in words(
        reply
    )
    assert '<li class="warn"><a href="' in reply.text
    day.clock.advance(600)
    assert re.search(r'<li class="bad"><a href="[^"]*"><strong>tick silent', visitor.get("/").text)


@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_others_are_harmless_in_the_picture(own, text):
    """In the names of acts, and of what they were done to."""
    own.stores.watch.record(NOON, Point(second=0.0, promise=1020, release=text[:20]))
    own.stores.watch.note_act(Act(NOON, text, text, text, text))
    for page in ("/", "/?at=2026-11-21T12:01"):
        shown = own.visitor().get(page).text
        assert shown.count("<script") <= 2
        assert [one for one in shown if not one.isprintable() and one != "\n"] == []


def test_nothing_is_drawn_through_a_gap():
    """The path ends where it begins, and goes on behind it."""

    def point(minutes, promise=180):
        at = NOON + timedelta(minutes=minutes)
        return PointAt(at, at + timedelta(seconds=promise), Point(second=0.0, promise=promise, depth=5))

    points = tuple(map(point, [*range(20), *range(40, 60)]))
    strip = draw_strip([Hour(hour_of(NOON), points)], [], NOON + HOUR, 1)
    (gap,) = strip.gaps
    depth = strip.lanes[1]
    begins = [float(one) for one in re.findall(r"M([\d.]+),", depth.path)]
    ends = [float(one) for one in re.findall(r"H([\d.]+)(?=M|$)", depth.path)]
    assert (len(begins), len(ends), depth.most) == (2, 2, 5)
    assert (ends[0], begins[1]) == (pytest.approx(gap.x, abs=8), pytest.approx(gap.x + gap.width, abs=8))
    assert ends[1] == WIDTH
    assert draw_strip([], [], NOON, 24) is None
