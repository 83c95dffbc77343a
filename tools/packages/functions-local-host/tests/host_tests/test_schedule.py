"""NCRONTAB against known dates and a brute-force oracle."""

from datetime import UTC, datetime, timedelta

import pytest
from functions_local_host.schedule import ScheduleError, parse_schedule
from hypothesis import given, settings, strategies as st

START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)  # a Friday


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * * *", "2026-11-20T12:00:01"),
        ("*/5 * * * *", "2026-11-20T12:05:00"),
        ("0 */5 * * * *", "2026-11-20T12:05:00"),
        ("30 0 12 * * *", "2026-11-20T12:00:30"),
        ("0 0 12 * * *", "2026-11-21T12:00:00"),
        ("0 0 0 * * MON", "2026-11-23T00:00:00"),
        ("0 0 0 * * Monday", "2026-11-23T00:00:00"),
        ("0 0 0 1 JAN *", "2027-01-01T00:00:00"),
        ("0 0 9-17/4 * * *", "2026-11-20T13:00:00"),
        ("0 10,20 * * * *", "2026-11-20T12:10:00"),
        ("0 50/5 * * * *", "2026-11-20T12:50:00"),
        ("0 0 0 29 2 *", "2028-02-29T00:00:00"),
        ("0 0 0 31 * *", "2026-12-31T00:00:00"),
        # Day and weekday must both match: the next Friday the 13th.
        ("0 0 0 13 * FRI", "2027-08-13T00:00:00"),
        # A range written backwards is turned round.
        ("0 0 0 * * SAT-MON", "2026-11-21T00:00:00"),
        ("01:30:00", "2026-11-20T13:30:00"),
        ("24:00:00", "2026-12-14T12:00:00"),
    ],
)
def test_the_next_occurrence_is_the_one_a_person_expects(expression, expected):
    """Steps, lists, ranges, names, five fields and time spans."""
    assert parse_schedule(expression).next_after(START) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "expression",
    ["", "often", "60 * * * * *", "* * * *", "* * * * * * *", "0 0 0 0 * *", "0 0 0 * 13 *", "0 0 0 * * 7", "*/0 * * * * *",
     "0 5- * * * *", "0 0 0 * FOO *", "00:00:00", "-00:01:00", "0 0 0 ? * *"],
)  # fmt: skip
def test_what_the_host_does_not_read_is_refused(expression):
    """The error quotes the expression."""
    with pytest.raises(ScheduleError, match="the schedule"):
        parse_schedule(expression)


def test_a_date_that_never_comes_has_no_occurrence():
    """30 February: the timer simply never runs."""
    assert parse_schedule("0 0 0 30 2 *").next_after(START) is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("* * * * * *", False),
        ("*/30 * * * * *", False),
        ("0 * * * * *", True),
        ("*/30 0 * * * *", True),
        ("00:00:59", False),
        ("00:01:00", True),
    ],
)
def test_schedules_below_a_minute_are_not_monitored(expression, expected):
    """The host keeps no status for what runs more often than once a minute."""
    assert parse_schedule(expression).is_monitored is expected


def field(least, most):
    """Draw one field of an expression."""
    value = st.integers(least, most)
    return st.one_of(
        st.just("*"),
        value.map(str),
        st.tuples(value, value).map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.integers(1, most).map(lambda n: f"*/{n}"),
        st.lists(value, min_size=2, max_size=3).map(lambda values: ",".join(map(str, values))),
    )


def allowed(text, least, most):
    """Read a field of `field`'s making the long way."""
    found = set()
    for part in text.split(","):
        body, _, step = part.partition("/")
        ends = [least, most] if body == "*" else sorted(map(int, body.split("-")))
        found |= set(range(ends[0], ends[-1] + 1, int(step or 1)))
    return found


@settings(max_examples=100, deadline=None)
@given(field(0, 59), field(0, 59), field(0, 23), st.integers(0, 86_400))
def test_no_second_is_skipped_and_none_invented(second, minute, hour, offset):
    """Against a scan of every second of a day: the first match later than the start."""
    start = START + timedelta(seconds=offset)
    seconds, minutes, hours = allowed(second, 0, 59), allowed(minute, 0, 59), allowed(hour, 0, 23)
    moment = start + timedelta(seconds=1)
    while not (moment.hour in hours and moment.minute in minutes and moment.second in seconds):
        # Whole minutes that cannot match are passed over, or the scan would take the test's time.
        skipped = moment.hour not in hours or moment.minute not in minutes
        moment += timedelta(seconds=60 - moment.second if skipped else 1)
    assert parse_schedule(f"{second} {minute} {hour} * * *").next_after(start) == moment


@settings(max_examples=100, deadline=None)
@given(field(1, 28), field(1, 12), field(0, 6), st.integers(0, 365))
def test_no_day_is_skipped_and_none_invented(day, month, weekday, offset):
    """Against a scan of every day: day of month, month and weekday must all match."""
    start = START + timedelta(days=offset)
    days, months, weekdays = allowed(day, 1, 31), allowed(month, 1, 12), allowed(weekday, 0, 6)
    moment = start.replace(hour=0) + timedelta(days=1)
    while not (moment.day in days and moment.month in months and moment.isoweekday() % 7 in weekdays):
        moment += timedelta(days=1)
    assert parse_schedule(f"0 0 0 {day} {month} {weekday}").next_after(start) == moment
