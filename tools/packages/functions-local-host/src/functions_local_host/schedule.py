"""Timer schedules: NCRONTAB expressions of six fields (five: second 0) and constant intervals, always UTC.

Pure: an expression and a moment give the next moment. Unlike Unix cron, day and weekday must both match.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from functions_local_host.time_span import parse_time_span

_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
#: 29 February on a given weekday can be 40 years away (around a century that is no leap year).
_HORIZON_YEARS = 41
_MINUTE = timedelta(minutes=1)


class ScheduleError(ValueError):
    """Raised when a timer's schedule is neither an NCRONTAB expression nor a time span."""


class Schedule(Protocol):
    """When a timer is due."""

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first occurrence later than `moment`. None if it does not exist."""
        ...

    @property
    def is_monitored(self) -> bool:
        """Return true if its status is worth keeping: not if it is due more often than once a minute."""
        ...


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()


_FIELDS = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("weekday", 0, 6, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """An NCRONTAB expression: the sorted values that each field allows."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first matching second later than `moment`."""
        start = moment.replace(microsecond=0) + timedelta(seconds=1)
        first = self._time_from(start) if self._has_day(start) else None
        if first is not None:
            return first
        day = start.replace(hour=0, minute=0, second=0)
        while day.year <= start.year + _HORIZON_YEARS:
            day = self._following_day(day)
            if self._has_day(day):
                return self._time_from(day)
        return None

    @property
    def is_monitored(self) -> bool:
        """The host gives up monitoring where every minute matches and several seconds do."""
        everything = (60, 24, 31, 12, 7)
        fields = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        return tuple(map(len, fields)) != everything or len(self.seconds) == 1

    def _has_day(self, day: datetime) -> bool:
        # isoweekday has Sunday as 7, cron as 0.
        return day.month in self.months and day.day in self.days and day.isoweekday() % 7 in self.weekdays

    def _following_day(self, day: datetime) -> datetime:
        if day.month in self.months:
            return day + timedelta(days=1)
        return (day.replace(day=28) + timedelta(days=4)).replace(day=1)

    def _time_from(self, start: datetime) -> datetime | None:
        """Return the first matching time of this day, at `start` or later."""
        for hour in (h for h in self.hours if h >= start.hour):
            least_minute = start.minute if hour == start.hour else 0
            for minute in (m for m in self.minutes if m >= least_minute):
                is_first = hour == start.hour and minute == start.minute
                second = next((s for s in self.seconds if s >= (start.second if is_first else 0)), None)
                if second is not None:
                    return start.replace(hour=hour, minute=minute, second=second)
        return None


@dataclass(frozen=True, slots=True)
class Interval:
    """A constant time between two runs."""

    span: timedelta

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the moment one interval later."""
        return moment + self.span

    @property
    def is_monitored(self) -> bool:
        """From one minute on."""
        return self.span >= _MINUTE


def parse_schedule(text: str) -> Schedule:
    """Return the schedule, or raise with its fault."""
    fields = text.split()
    if len(fields) in {5, 6}:
        return parse_cron(text)
    try:
        span = parse_time_span(text)
    except ValueError:
        span = timedelta(0)
    if span <= timedelta(0):
        raise ScheduleError(
            f"the schedule {text!r} is neither an NCRONTAB expression (second minute hour day month weekday)"
            " nor a time span hh:mm:ss above zero"
        )
    return Interval(span)


def parse_cron(text: str) -> Cron:
    """Return the expression of five or six fields."""
    fields = text.split()
    padded = fields if len(fields) == 6 else ["0", *fields]
    try:
        return Cron(*(_values(field, entry) for field, entry in zip(_FIELDS, padded, strict=True)))
    except ValueError as error:
        raise ScheduleError(f"the schedule {text!r} is not an NCRONTAB expression: {error}") from error


def _values(field: _Field, text: str) -> tuple[int, ...]:
    return tuple(sorted({value for part in text.split(",") for value in _part(field, part)}))


def _part(field: _Field, text: str) -> range:
    body, slash, step_text = text.partition("/")
    step = int(step_text) if step_text.isdigit() else 0
    if slash and step < 1:
        raise ValueError(f"{field.name} {text!r} has no step of 1 or more")
    if body == "*":
        return range(field.least, field.most + 1, step or 1)
    low_text, dash, high_text = body.partition("-")
    low = _value(field, low_text)
    # A lone value with a step runs to the field's end; without one it is itself.
    high = _value(field, high_text) if dash else (field.most if slash else low)
    return range(min(low, high), max(low, high) + 1, step or 1)


def _value(field: _Field, text: str) -> int:
    if text.isdigit():
        value = int(text)
    else:
        named = [n for n, word in enumerate(field.words, field.least) if text and word.startswith(text.lower())]
        if not named:
            raise ValueError(f"{field.name} {text!r} is neither a number nor a name it knows")
        value = named[0]
    if not field.least <= value <= field.most:
        raise ValueError(f"{field.name} is {value}, expected {field.least} to {field.most}")
    return value
