"""Lines of cron: their fields, and the moments that they name in a time zone. Pure.

A line of five fields is read as cron reads it. A timer of the host has six, and its fields are read by the same rules.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import groupby, pairwise
from typing import Final

from shared.errors import ScheduleRefusedError

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
#: The days that are looked at for a line's rhythm. A day of the month meets each weekday within eleven years.
_LOOKED_AT: Final = timedelta(days=12 * 366)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class CronField:
    """One field of a line, and the values that it takes."""

    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()
    #: The letters of a name that are enough.
    letters: int = 3


MINUTE: Final = CronField("minute", 0, 59)
HOUR: Final = CronField("hour", 0, 23)
DAY: Final = CronField("day of the month", 1, 31)
MONTH: Final = CronField("month", 1, 12, MONTHS)
#: Sunday is 0, and 7 too.
WEEKDAY: Final = CronField("day of the week", 0, 7, DAYS)
_FIELDS: Final = (MINUTE, HOUR, DAY, MONTH, WEEKDAY)


def read_field(field: CronField, text: str) -> frozenset[int]:
    """Return the values that a field allows. Raises ScheduleRefusedError with its name."""
    return frozenset(value for part in text.split(",") for value in _part(field, text, part))


def _part(field: CronField, whole: str, text: str) -> Iterator[int]:
    body, slash, step_text = text.partition("/")
    step = _number(step_text) if slash else 1
    if step < 1:
        raise ScheduleRefusedError(f"{field.name} {whole!r} has no step of 1 or more")
    low_text, dash, high_text = body.partition("-")
    low = field.least if body == "*" else _value(field, whole, low_text)
    # A lone value with a step goes to the end of the field.
    high = _value(field, whole, high_text) if dash else field.most if slash or body == "*" else low
    # A range that is turned round goes over the end, as from Friday to Monday.
    values = range(low, high + 1) if low <= high else (*range(low, field.most + 1), *range(field.least, high + 1))
    yield from values[::step]


def _value(field: CronField, whole: str, text: str) -> int:
    if text and len(text) >= field.letters:
        word = text.lower()
        named = [number for number, known in enumerate(field.words, field.least) if known.lower().startswith(word)]
        if named:
            return named[0]
    value = _number(text)
    if not field.least <= value <= field.most:
        names = f" and no name such as {field.words[1][:3].lower()}" if field.words else ""
        place = f"{field.name} {text!r}" if text == whole else f"{field.name} {whole!r}: {text!r}"
        raise ScheduleRefusedError(f"{place} is no number from {field.least} to {field.most}{names}")
    return value


def _number(text: str) -> int:
    return int(text) if re.fullmatch("[0-9]{1,4}", text) else -1


@dataclass(frozen=True, slots=True)
class CronLine:
    """A line of five fields: the times of a day, and the days."""

    #: In their order.
    times: tuple[time, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    #: Both day fields are restricted, so that one of them is enough.
    either: bool
    #: Every hour is allowed, so it runs by the time that passes: also in an hour that the clock repeats.
    is_hourly: bool

    def has_day(self, day: date) -> bool:
        """Check whether it names a moment of this day."""
        if day.month not in self.months:
            return False
        by_day, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_day or by_week if self.either else by_day and by_week

    def moments(self, day: date, zone: tzinfo) -> list[datetime]:
        """Return the moments of this day in UTC, in their order.

        A time that the clock skips counts as much later as the clock is set forward. One that comes twice counts the first time.
        """
        if not self.has_day(day):
            return []
        found = set()
        for at in self.times:
            first = datetime.combine(day, at, zone)
            found.add(first.astimezone(UTC))
            if self.is_hourly and is_doubled(first):
                found.add(first.replace(fold=1).astimezone(UTC))
        return sorted(found)

    def next_after(self, moment: datetime, zone: tzinfo) -> datetime:
        """Return its first moment later than this one, in UTC."""
        # A time that the clock skips before midnight counts on the next day, among the moments of that day.
        day = moment.astimezone(zone).date() - _DAY
        best: datetime | None = None
        while best is None or day <= best.astimezone(zone).date():
            later = [one for one in self.moments(day, zone) if one > moment]
            best = min([*later, *([best] if best else [])], default=None)
            day += _DAY
        return best


def read_line(text: str, today: date, least_apart: timedelta, most_apart: timedelta) -> CronLine:
    """Return a line of five fields, or raise ScheduleRefusedError with its fault. `today` and bounds: of its rhythm."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ScheduleRefusedError(
            f"{text!r} has {len(fields)} fields, expected five: minute, hour, day of the month, month, day of the week"
        )
    minutes, hours, days, months, weekdays = (read_field(*pair) for pair in zip(_FIELDS, fields, strict=True))
    line = CronLine(
        times=tuple(time(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)),
        days=days,
        months=months,
        weekdays=frozenset(value % 7 for value in weekdays),
        # As cron: a field that begins with a star is no restriction, even if it has a step.
        either=not fields[2].startswith("*") and not fields[4].startswith("*"),
        is_hourly=len(hours) == HOUR.most + 1,
    )
    _check_rhythm(text, line, today, least_apart, most_apart)
    return line


def _check_rhythm(text: str, line: CronLine, today: date, least_apart: timedelta, most_apart: timedelta) -> None:
    days = [day for number in range(_LOOKED_AT.days) if line.has_day(day := today + number * _DAY)]
    if not days:
        raise ScheduleRefusedError(
            f"{text!r} never comes: no {DAY.name} {_join_numbers(line.days)} is in {_months(line)}"
        )
    longest = max(((after - before, before) for before, after in pairwise(days)), default=(_LOOKED_AT, days[0]))
    if longest[0] > most_apart:
        raise ScheduleRefusedError(
            f"{text!r} comes too seldom: after {longest[1]} not for {most_apart.days} days; open the gate by --at"
        )
    of_day = [timedelta(hours=at.hour, minutes=at.minute) for at in line.times]
    gaps = [after - before for before, after in pairwise(of_day)]
    if any(after - before == _DAY for before, after in pairwise(days)):
        gaps.append(_DAY - of_day[-1] + of_day[0])
    if gaps and min(gaps) < least_apart:
        raise ScheduleRefusedError(
            f"{text!r} comes twice in {min(gaps) // timedelta(minutes=1)} minutes: openings are at least "
            f"{least_apart // timedelta(minutes=1)} minutes apart"
        )


def is_doubled(local: datetime) -> bool:
    """Check whether the clock shows this time twice on its day."""
    first, second = (local.replace(fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second


def is_skipped(local: datetime) -> bool:
    """Check whether the clock skips this time on its day."""
    first, second = (local.replace(fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first < second


#: More times of a day are said by their number.
_MOST_LISTED: Final = 4


def describe(line: CronLine) -> str:
    """Return the line in words, such as "at 02:00 on Monday to Friday"."""
    shown = ", ".join(f"{at:%H:%M}" for at in line.times)
    said = f"at {shown}" if len(line.times) <= _MOST_LISTED else f"{len(line.times)} times a day"
    every_day, every_week = len(line.days) == DAY.most, len(line.weekdays) == len(DAYS)
    by_day = "" if every_day else f"day{'s' * (len(line.days) > 1)} {_join_numbers(line.days)} of the month"
    # From Monday on, as people say a week.
    week = [DAYS[number % 7] for number in range(1, 8) if number % 7 in line.weekdays]
    by_week = "" if every_week else _week(line.weekdays, week)
    both = (" or " if line.either else " and ").join(filter(None, (by_day, by_week)))
    on = f" on {both}" if both else " every day"
    return f"{said}{on}" + ("" if len(line.months) == len(MONTHS) else f" in {_months(line)}")


def _week(weekdays: frozenset[int], names: list[str]) -> str:
    numbers = sorted((number - 1) % 7 for number in weekdays)
    is_row = len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
    return f"{names[0]} to {names[-1]}" if is_row else ", ".join(names)


def _months(line: CronLine) -> str:
    return ", ".join(MONTHS[number - 1] for number in sorted(line.months))


def _join_numbers(numbers: frozenset[int]) -> str:
    """Return numbers as a person writes them, rows of them as ranges."""
    rows = []
    for _key, row in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        values = [value for _place, value in row]
        rows.append(str(values[0]) if len(values) == 1 else f"{values[0]}-{values[-1]}")
    return ", ".join(rows)
