"""What needs a person beyond the rows: what follows from the last point, and from the causes."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.operating import find_needs
from shared.parked import ParkedCount
from shared.watch import Hour, Need, NeedKind, Point, PointAt, Standing

NOW = datetime(2031, 3, 1, 12, tzinfo=UTC)
LATE = Need(NeedKind.LATE, "j", "little time is left", NOW, is_grave=False)


def standing(*needs, **point):
    """Return these needs, beside a tick that has just ended."""
    last = PointAt(NOW, NOW + timedelta(minutes=3), Point(second=0, promise=180, **point))
    return Standing(needs=list(needs), hours=[Hour(NOW, (last,))], named=NOW)


def kinds(found):
    """Return the kinds in words."""
    return [need.words for need in found]


@pytest.mark.parametrize(
    ("point", "is_found"),
    [
        ({"depth": 3, "oldest_age": 121.0, "processes": 0}, True),
        ({"depth": 3, "oldest_age": 120.0, "processes": 0}, False),
        ({"depth": 3, "oldest_age": 900.0, "processes": 1}, False),
        ({"depth": 0, "oldest_age": 900.0, "processes": 0}, False),
    ],
)
def test_work_that_waits_without_a_process_is_a_need(point, is_found):
    """Two minutes are what a process may take to start."""
    assert kinds(find_needs(standing(**point), ParkedCount(0, 0, is_whole=True), NOW)) == (
        ["work waits"] if is_found else []
    )


def test_what_is_parked_is_a_notice_behind_the_grave():
    """With its words; no row has it, so no person takes it off."""
    found = find_needs(standing(LATE, depth=1, oldest_age=600.0), ParkedCount(7, 2, is_whole=True), NOW)
    assert kinds(found) == ["work waits", "parked", "job late"]
    assert [(need.found, need.has_row) for need in found[1:]] == [("7 in 2 causes", False), (LATE.found, True)]
