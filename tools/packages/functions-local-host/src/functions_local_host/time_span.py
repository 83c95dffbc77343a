"""The .NET `TimeSpan` text form, in which host.json and timer schedules write durations."""

import re
from datetime import timedelta

_CLOCK = re.compile(
    r"(?P<sign>-?)(?:(?P<days>\d{1,8})\.)?(?P<a>\d{1,8}):(?P<b>\d{1,2})(?::(?P<c>\d{1,2})(?:\.(?P<fraction>\d{1,7}))?)?"
)
_DAYS = re.compile(r"(?P<sign>-?)(?P<days>\d{1,8})")


def parse_time_span(text: str) -> timedelta:
    """Return the duration that .NET reads in `[-][d.]hh:mm[:ss[.fffffff]]`, or in a bare number of days."""
    text = text.strip()
    if match := _DAYS.fullmatch(text):
        return _signed(match, timedelta(days=int(match["days"])))
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time span of the form [d.]hh:mm:ss")
    return _signed(match, _clock(match, text))


def _clock(match: re.Match[str], text: str) -> timedelta:
    days, first, second, third = (int(match[name] or 0) for name in ("days", "a", "b", "c"))
    # .NET reads a first number above 23 as days: 24:00:00 is 24 days, a trap its documentation warns of.
    if match["days"] is None and first > 23 and match["c"] is not None and match["fraction"] is None:
        days, first, second, third = first, second, third, 0
    if first > 23 or second > 59 or third > 59:
        raise ValueError(f"{text!r} has an hour above 23, or a minute or second above 59")
    fraction = int((match["fraction"] or "").ljust(7, "0")[:6])
    return timedelta(days=days, hours=first, minutes=second, seconds=third, microseconds=fraction)


def _signed(match: re.Match[str], span: timedelta) -> timedelta:
    return -span if match["sign"] else span
