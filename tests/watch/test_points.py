"""The rows of hours: what is packed is read again, and what another version wrote does no harm."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from shared.watch import SPENT_EVERY, Act, Need, NeedKind, Point, SpentUntil, list_spending
from shared.watch.points import (
    ACT_SLOTS,
    HOUR,
    MOST_NAMED,
    NEED_SLOTS,
    Change,
    hours_of_day,
    pack_act,
    pack_open,
    read_hour,
)
from tests.ledger.builders import NOON
from tests.watch.conftest import minute as at

PAUSED = Need(NeedKind.PAUSED, "nightly", "30 of 40 chunks are parked", NOON)
ROW = {"PartitionKey": "watch", "RowKey": "0|2026-11-21T12"}


def read(house):
    """Return the hour that begins at noon."""
    (hour,) = house.watch.read_hours(NOON, NOON)
    return hour


def test_an_hour_has_what_was_written_into_it(house):
    """A point, an act, a need that began and ended, and the needs at its beginning: by one request each, none of which reads."""
    point = Point(second=4.5, promise=180, seconds=60, arrived=7, depth=3, latency=0.5, binding="rule", release="0.5.0")
    house.watch.begin(PAUSED)
    house.watch.record(at(1), point, [PAUSED])
    house.watch.note_act(Act(at(2), "ann", "gate open", "nightly", "opened"))
    house.watch.end(NeedKind.PAUSED, "nightly", at(3))
    hour = read(house)
    assert [(one.at, one.promised, one.point) for one in hour.points] == [
        (at(1) + timedelta(seconds=4.5), at(4) + timedelta(seconds=4.5), point)
    ]
    assert hour.acts == (Act(at(2), "ann", "gate open", "nightly", "opened"),)
    assert hour.changes == (
        Change(NOON, NeedKind.PAUSED, "nightly", is_grave=True, begins=True),
        Change(at(3), NeedKind.PAUSED, "nightly", is_grave=False, begins=False),
    )
    assert (hour.opened.names, hour.opened.is_whole) == ((("x-paused", "nightly", True),), True)
    assert house.watch.read().needs == []
    assert "30 of 40" not in str(list(house.table.list_entities()))


def test_the_cost_of_a_day_becomes_that_of_each_time(house):
    """Also over midnight, where a day begins at nothing. What is noted less than before is no gain."""
    midnight = NOON + 12 * HOUR
    readings = [
        (midnight - timedelta(minutes=20), {"useful": 0.5, "idle": 0.1}),
        (midnight - timedelta(minutes=10), {"useful": 0.8, "idle": 0.1}),
        (midnight + timedelta(minutes=10), {"useful": 0.04}),
        (midnight + timedelta(minutes=20), {"useful": 0.03, "retry": 0.000012346}),
    ]
    for moment, amounts in readings:
        house.watch.record(moment, Point(second=0, promise=180), None, SpentUntil(moment, amounts))
    hours = house.watch.read_hours(readings[0][0], readings[-1][0])
    assert [one.unknown for one in hours] == [0, 0]
    found = list_spending(hours)
    assert [one.until for one in found] == [moment for moment, _ in readings[1:]]
    assert found[1].since == midnight
    assert [round(one.total, 7) for one in found] == [0.3, 0.04, 0.0000124]
    assert found[0].an_hour == pytest.approx(1.8)


def test_a_need_that_is_gone_is_ended_once(house):
    """The second end marks nothing, so the hour has the first."""
    house.watch.begin(PAUSED)
    house.watch.end(NeedKind.PAUSED, "nightly", at(3))
    house.watch.end(NeedKind.PAUSED, "nightly", at(9))
    assert [one.at for one in read(house).changes] == [NOON, at(3)]


def test_a_page_has_the_hours_and_the_needs_in_one_read(house, monkeypatch):
    """Hours before the wanted one are left out."""
    for hour in range(4):
        house.watch.record(NOON + hour * HOUR, Point(second=0, promise=180))
    house.watch.begin(PAUSED)
    standing = house.watch.read(NOON + HOUR)
    assert [one.at for one in standing.hours] == [NOON + n * HOUR for n in (1, 2, 3)]
    assert [one.kind for one in standing.needs] == ["x-paused"]
    assert house.watch.read().hours == []
    assert len(house.watch.read_hours(*hours_of_day(NOON.date()))) == 4


def test_hours_are_removed_when_nobody_keeps_them(house):
    """Those of the last 35 days stay, and so do the needs."""
    house.watch.begin(PAUSED)
    for days in (0, 34, 36, 37):
        house.watch.record(NOON - timedelta(days=days), Point(second=0, promise=180))
    house.watch.remove_old(NOON)
    house.watch.remove_old(NOON)
    found = house.watch.read_hours(NOON - timedelta(days=99), NOON)
    assert [(NOON - one.at).days for one in found] == [34, 0]
    assert len(house.watch.read().needs) == 1


def test_a_newer_version_is_read_as_far_as_it_is_known():
    """Its point says when it was and what it promised; marks and columns that are not known are left out."""
    longer = msgspec.json.encode([1, 2.0, 180, *[0] * 5, *[None] * 5, "rule", 1, 0, 0, "0.9.0", "more"]).decode()
    hour = read_hour(
        ROW
        | {"m01": longer, "m02": '[2, 5.0, 60, {"other": 1}]', "m03": "{}", "a00": "[2]", "b01": "[9,1,2]", "z": "1"}
    )
    assert [(one.at, one.point and one.point.release) for one in hour.points] == [
        (at(1) + timedelta(seconds=2), "0.9.0"),
        (at(2) + timedelta(seconds=5), None),
    ]
    assert (hour.acts, hour.changes, hour.unknown) == ((), (), 3)


def test_an_hour_never_has_more_columns_than_a_row_may():
    """Azure refuses the 253rd, and the point of that minute with it. Names are cut; a row stays far below a megabyte."""
    assert (
        60 + 60 // SPENT_EVERY + ACT_SLOTS + 2 * NEED_SLOTS + len({"PartitionKey", "RowKey", "Timestamp", "open"}) < 252
    )
    found = {}
    for number in range(2_000):
        found |= pack_act(Act(at(number % 60), "w" * 300, "gate open", f"g{number}", "r" * 900))
    assert len(found) == ACT_SLOTS
    assert max(map(len, found.values())) < 500
    opened = read_hour(ROW | pack_open([Need(NeedKind.LATE, f"j{n}", "", NOON) for n in range(300)])).opened
    assert (len(opened.names), opened.numbers, opened.is_whole) == (MOST_NAMED, {"z-late": 300}, False)


@pytest.mark.parametrize("moment", [NOON, datetime(2026, 3, 29, 1, tzinfo=UTC)])
def test_a_day_has_twenty_four_hours(moment):
    """In UTC, also where clocks are put forward."""
    first, last = hours_of_day(moment.date())
    assert (first.hour, last.hour, last - first) == (0, 23, 23 * HOUR)
