"""Lines of cron: what each names, in words and in moments, over every change of the clock."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from shared.cron import DAYS, WEEKDAY, describe, read_field, read_line
from shared.errors import ScheduleRefusedError

TODAY = date(2026, 11, 24)
LEAST, MOST = timedelta(minutes=15), timedelta(days=400)
#: Changes by an hour in summer and winter, by half an hour, at midnight, with odd offsets, and none.
ZONES = (
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "America/New_York",
    "Pacific/Chatham",
    "America/Santiago",
    "Africa/Cairo",
    "Asia/Kathmandu",
)
LINES = (
    "0 2 * * mon-fri",
    "30 2 * * *",
    "15,45 1-3 * * *",
    "0 0 * * *",
    "45 23 1,15 * sun",
    "0 * * * *",
    "*/15 * */7 3,4,9,10,11 *",
)
BEGIN, END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2028, 11, 1, tzinfo=UTC)
#: Every change of a clock is at a quarter of an hour, and so is every time of these lines.
STEP = timedelta(minutes=15)


def line_of(text):
    """Return a line that is checked on a certain day."""
    return read_line(text, TODAY, LEAST, MOST)


def shown(zone):
    """Yield each quarter of an hour, with what a clock on the wall shows then, and what it would show unless it was changed."""
    before, moment = None, BEGIN - timedelta(days=2)
    while moment < END + timedelta(days=2):
        local = moment.astimezone(zone).replace(tzinfo=None)
        yield moment, local, local if before is None else before + STEP
        before, moment = local, moment + STEP


def expected(text, zone):
    """Return the moments of a line by a walk along a clock on the wall, without any arithmetic of zones."""
    minute, hour, day, month, weekday = text.split()
    found, seen = set(), set()

    def matches(local):
        by_day, by_week = (_in(day, local.day), _in(weekday, local.isoweekday() % 7))
        either = not day.startswith("*") and not weekday.startswith("*")
        on_day = by_day or by_week if either else by_day and by_week
        return _in(minute, local.minute) and _in(hour, local.hour) and _in(month, local.month) and on_day

    for moment, local, due in shown(zone):
        skipped = due
        while skipped < local:
            # The clock was set forward: what it skips counts as much later.
            if matches(skipped):
                found.add(moment + (skipped - due))
            skipped += STEP
        if matches(local) and (hour == "*" or local not in seen):
            found.add(moment)
        seen.add(local)
    return sorted(moment for moment in found if BEGIN < moment <= END)


def _in(field, value):
    """Read a field of these lines in the simplest way."""
    days = {"mon-fri": range(1, 6), "sun": [0]}
    if field in days:
        return value in days[field]
    if field.startswith("*/"):
        # A step begins with the field's least value: 0 for minutes, 1 for days.
        return value in range(0 if field == "*/15" else 1, 60, int(field[2:]))
    if "-" in field:
        low, high = field.split("-")
        return int(low) <= value <= int(high)
    return field == "*" or str(value) in field.split(",")


def walk(text, zone):
    """Return the moments of a line one after the other, as a follower goes on."""
    line, moment, found = line_of(text), BEGIN, []
    while (moment := line.next_after(moment, zone)) <= END:
        found.append(moment)
    return found


def check(name, text):
    """Compare a line's moments with what the clock on a wall shows."""
    zone = ZoneInfo(name)
    assert walk(text, zone) == expected(text, zone)


@pytest.mark.parametrize("text", LINES[:2])
def test_each_time_of_the_wall_clock_comes_once_and_in_order(text):
    """Two years in a zone that skips an hour and repeats one. What is skipped comes later, what is repeated once."""
    check("Europe/Berlin", text)


@pytest.mark.ci("two years of a wall clock, in seven zones")
@pytest.mark.parametrize("text", LINES)
@pytest.mark.parametrize("name", ZONES)
def test_each_time_comes_once_in_every_zone(name, text):
    """Clocks that change at midnight or by half an hour, and such as have odd offsets. Hours go by the time that passes."""
    check(name, text)


def test_a_nightly_line_comes_on_each_day_of_the_clock_s_changes():
    """Skipped at 02:00 in March: an hour later, at the very change. Twice in October: the first one."""
    line, berlin = line_of("0 2 * * *"), ZoneInfo("Europe/Berlin")
    march = line.next_after(datetime(2027, 3, 27, 12, tzinfo=UTC), berlin)
    october = line.next_after(datetime(2027, 10, 30, 12, tzinfo=UTC), berlin)
    assert (march, october) == (datetime(2027, 3, 28, 1, tzinfo=UTC), datetime(2027, 10, 31, 0, tzinfo=UTC))
    assert line.next_after(october, berlin) == datetime(2027, 11, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 2 * * mon-fri", "at 02:00 on Monday to Friday"),
        ("0 2 * * *", "at 02:00 every day"),
        ("0,30 6,18 * * sat,sun", "at 06:00, 06:30, 18:00, 18:30 on Saturday, Sunday"),
        ("*/15 * * * *", "96 times a day every day"),
        ("0 2 1 * mon", "at 02:00 on day 1 of the month or Monday"),
        ("0 2 1-7 * *", "at 02:00 on days 1-7 of the month"),
        ("0 2 */10 * Monday", "at 02:00 on days 1, 11, 21, 31 of the month and Monday"),
        ("0 2 1,15 jan,7 *", "at 02:00 on days 1, 15 of the month in January, July"),
        ("0 2 * * fri-mon", "at 02:00 on Monday, Friday, Saturday, Sunday"),
        ("5 0 29 2,3 *", "at 00:05 on day 29 of the month in February, March"),
    ],
)
def test_a_line_is_said_in_words(text, words):
    """What a person reads before the first opening."""
    assert describe(line_of(text)) == words


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "has 0 fields, expected five"),
        ("0 0 2 * * mon", "has 6 fields, expected five"),
        ("61 2 * * *", "minute '61' is no number from 0 to 59"),
        ("0 24 * * *", "hour '24' is no number from 0 to 23"),
        ("0 2 0 * *", "day of the month '0' is no number from 1 to 31"),
        ("0 2 * 13 *", "month '13' is no number from 1 to 12 and no name such as feb"),
        ("0 2 * * 1,mo", "day of the week '1,mo': 'mo' is no number from 0 to 7 and no name such as mon"),
        ("0 2 * * -1", "day of the week '-1': '' is no number"),
        ("0 2 1-5/0 * *", "day of the month '1-5/0' has no step of 1 or more"),
        ("0 2 31 2 *", "never comes: no day of the month 31 is in February"),
        ("0 2 31 4,6 *", "never comes: no day of the month 31 is in April, June"),
        ("0 2 29 2 *", "comes too seldom"),
        ("*/10 * * * *", "comes twice in 10 minutes: openings are at least 15 minutes apart"),
        ("0,50 0,23 * * *", "comes twice in 10 minutes"),
    ],
)
def test_a_line_without_sense_is_refused_with_its_field(text, fault):
    """The error names the field and its values, or the rhythm."""
    with pytest.raises(ScheduleRefusedError, match=fault):
        line_of(text)


def test_the_last_time_of_a_day_may_be_near_the_first_if_no_two_days_adjoin():
    """Ten minutes from 23:50 to 00:00, but on Mondays alone."""
    assert describe(line_of("0,50 0,23 * * mon"))


def test_sunday_has_two_numbers_and_its_name():
    """0 and 7, also at the end of a range, as cron has it."""
    assert {read_field(WEEKDAY, text) for text in ("0", "7", "sun", "SUNDAY")} == {frozenset({0}), frozenset({7})}
    assert DAYS[0] == "Sunday"
    sundays = {line_of(f"0 2 * * {text}").weekdays for text in ("0", "7", "sun", "Sunday")}
    assert sundays == {frozenset({0})}
    assert line_of("0 2 * * 5-7").weekdays == {5, 6, 0}
