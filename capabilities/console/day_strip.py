"""The last hours on one axis: work, its cost, needs, acts, and the times without a tick, as shapes for pictures. Pure.

A picture is a thousand units wide. It needs no script, and what it shows stands in a table below it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Final, NamedTuple

from shared.watch import (
    Act,
    Gap,
    Hour,
    Need,
    Point,
    PointAt,
    Spending,
    Stood,
    hour_of,
    list_gaps,
    list_points,
    list_spending,
    list_stood,
)

#: Hours that a person may choose.
SPANS: Final = (1, 6, 24, 168)
DAY: Final = timedelta(days=1)
WIDTH, HEIGHT = 1000, 100
#: Steps of a picture.
_STEPS: Final = 288
#: Lines of needs, and rows of the tables.
_MOST_STOOD, MOST_ROWS = 8, 50
_TIMES: Final = 6


class _Kind(NamedTuple):
    name: str
    read: Callable[[Point], float]
    #: Whether it is counted over the time of a point, and shown for a second.
    is_rate: bool = False


_KINDS: Final = (
    _Kind("transactions a second", lambda point: point.transactions, is_rate=True),
    _Kind("messages that wait", lambda point: point.depth),
    _Kind("tasks allowed", lambda point: point.tasks),
    _Kind("failed deliveries", lambda point: point.failed),
)
_COST: Final = "USD an hour"
_NAMES: Final = (*(kind.name for kind in _KINDS), _COST)


class _Stretch(NamedTuple):
    """A time with one value."""

    since: datetime
    until: datetime
    value: float


class Lane(NamedTuple):
    """One value over time: its name, its greatest value, and a path."""

    name: str
    most: float
    path: str
    #: The same of a day before, to the same scale. Empty: it is not shown.
    before: str = ""


class Bar(NamedTuple):
    """A time: from where it begins to how wide it is, in its line."""

    x: float
    width: float
    line: int
    words: str
    is_grave: bool = False


class Sign(NamedTuple):
    """A moment."""

    x: float
    words: str
    kind: str


class Row(NamedTuple):
    """An hour in numbers: the greatest of each lane. None: nothing is known of it."""

    at: datetime
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The picture."""

    since: datetime
    until: datetime
    hours: int
    times: Sequence[datetime]
    lanes: Sequence[Lane]
    gaps: Sequence[Bar]
    needs: Sequence[Bar]
    #: Height of the lane of needs.
    lines: int
    signs: Sequence[Sign]
    #: Whether the lanes show a day before, too.
    is_beside: bool
    #: For the tables.
    missed: Sequence[Gap]
    stood: Sequence[Stood]
    acts: Sequence[Act]
    rows: Sequence[Row]
    #: The cost of the time that is shown, by the cause of its requests, the largest first.
    spent: Sequence[tuple[str, float]]
    names: Sequence[str] = _NAMES


def draw_strip(
    hours: Sequence[Hour],
    standing: Iterable[Need] | None,
    now: datetime,
    span: int,
    before: Sequence[Hour] | None = None,
) -> Strip | None:
    """Return the picture of the last hours. None: no tick has recorded anything. `before`: the hours of a day before."""
    points = list_points(hours)
    if not points:
        return None
    until, since = now, now - timedelta(hours=span)
    axis = _Axis(since, (until - since).total_seconds())
    missed = list_gaps(hours, since, until)
    stood = [one for one in list_stood(hours, until, standing) if one.last is None or one.last > since]
    shown = [one for one in points if since <= one.at]
    acts = [act for hour in hours for act in hour.acts if act.at >= since]
    needs = list(_draw_needs(axis, stood, until))
    spending = [one for one in list_spending(hours) if one.until >= since]
    work = _Work(_measure(shown, spending), missed)
    yesterday = None
    if before is not None:
        earlier = _Axis(since - DAY, axis.seconds)
        known = [one for one in list_points(before) if since - DAY <= one.at <= until - DAY]
        measured = _measure(known, list_spending(before))
        yesterday = (earlier, _Work(measured, list_gaps(before, since - DAY, until - DAY)))
    return Strip(
        since=since,
        until=until,
        hours=span,
        times=[since + (until - since) * n / _TIMES for n in range(_TIMES + 1)],
        lanes=[_draw_lane(name, (axis, work), yesterday) for name in _NAMES],
        is_beside=before is not None,
        gaps=[_bar(axis, *gap, 0, "no tick is recorded") for gap in missed],
        needs=needs,
        lines=1 + max((bar.line for bar in needs), default=0),
        signs=[*_draw_acts(axis, acts), *_draw_releases(axis, shown)],
        missed=missed,
        stood=stood,
        acts=acts[-MOST_ROWS:],
        rows=_count_hours(work.values, since),
        spent=_add_up(spending),
    )


class _Axis(NamedTuple):
    since: datetime
    seconds: float

    def place(self, at: datetime) -> float:
        """Return where a moment is."""
        part = (at - self.since).total_seconds() / self.seconds
        return round(WIDTH * min(1.0, max(0.0, part)), 1)


def _value(kind: _Kind, point: Point | None) -> float:
    if point is None:
        return 0.0
    found = kind.read(point)
    return found / point.seconds if kind.is_rate and point.seconds else found


class _Work(NamedTuple):
    """The values of a time by the names of their lanes, and its gaps."""

    values: Mapping[str, Sequence[_Stretch]]
    missed: Sequence[Gap]


def _measure(points: Sequence[PointAt], spending: Sequence[Spending]) -> dict[str, list[_Stretch]]:
    found = {kind.name: [_stretch_of(kind, one) for one in points] for kind in _KINDS}
    return found | {_COST: [_Stretch(one.since, one.until, one.an_hour) for one in spending]}


def _stretch_of(kind: _Kind, one: PointAt) -> _Stretch:
    seconds = one.point.seconds if one.point else 0.0
    return _Stretch(one.at - timedelta(seconds=seconds), one.at, _value(kind, one.point))


def _draw_lane(name: str, shown: tuple[_Axis, _Work], before: tuple[_Axis, _Work] | None) -> Lane:
    drawn = [(_steps_of(axis, work.values[name]), axis, work.missed) for axis, work in filter(None, (shown, before))]
    most = max(max(steps) for steps, _, _ in drawn)
    paths = ["".join(_trace(steps, most, _empty_steps(axis, missed))) for steps, axis, missed in drawn]
    return Lane(name, most, *paths)


def _steps_of(axis: _Axis, stretches: Sequence[_Stretch]) -> list[float]:
    steps = [0.0] * _STEPS
    for one in stretches:
        first = _step(axis, one.since)
        for step in range(first, max(first, _step(axis, one.until)) + 1):
            steps[step] = max(steps[step], one.value)
    return steps


def _empty_steps(axis: _Axis, missed: Sequence[Gap]) -> set[int]:
    return {step for gap in missed for step in range(_step(axis, gap.since) + 1, _step(axis, gap.until))}


def _step(axis: _Axis, at: datetime) -> int:
    return min(_STEPS - 1, int(axis.place(at) * _STEPS / WIDTH))


def _trace(steps: Sequence[float], most: float, empty: set[int]) -> Iterator[str]:
    """Yield a path of steps. Nothing is drawn through a time without a tick."""
    is_down, last = False, -1
    for step, value in enumerate(steps):
        if step in empty:
            if is_down:
                yield f"H{_edge(step)}"
            is_down = False
            continue
        height = HEIGHT - ceil((HEIGHT - 4) * value / most) if most else HEIGHT
        if not is_down:
            yield f"M{_edge(step)},{height}"
        elif height != last:
            yield f"H{_edge(step)}V{height}"
        is_down, last = True, height
    if is_down:
        yield f"H{WIDTH}"


def _edge(step: int) -> float:
    return round(step * WIDTH / _STEPS, 1)


def _bar(axis: _Axis, since: datetime, until: datetime, line: int, words: str, *, is_grave: bool = False) -> Bar:  # noqa: PLR0913 - of one shape
    left = axis.place(since)
    return Bar(left, round(max(3.0, axis.place(until) - left), 1), line, words, is_grave)


def _draw_needs(axis: _Axis, stood: Sequence[Stood], until: datetime) -> Iterator[Bar]:
    """Yield a bar for each need, in the first line that has room. The table has those for which none is left."""
    free = [0.0] * _MOST_STOOD
    for one in stood:
        bar = _bar(axis, one.first, one.last or until, 0, f"{one.words} {one.about}", is_grave=one.is_grave)
        line = next((number for number, edge in enumerate(free) if edge <= bar.x), None)
        if line is not None:
            free[line] = bar.x + bar.width
            yield bar._replace(line=line)


def _draw_acts(axis: _Axis, acts: Iterable[Act]) -> Iterator[Sign]:
    for act in acts:
        yield Sign(axis.place(act.at), f"{act.at:%H:%M} {act.what} {act.target}, {act.who}: {act.result}", "act")


def _draw_releases(axis: _Axis, points: Iterable[PointAt]) -> Iterator[Sign]:
    known = ""
    for one in points:
        found = one.point.release if one.point else ""
        if found and known and found != known:
            yield Sign(axis.place(one.at), f"{one.at:%H:%M} version {found} ticks, before it {known}", "release")
        known = found or known


def _count_hours(values: Mapping[str, Sequence[_Stretch]], since: datetime) -> list[Row]:
    found: dict[datetime, dict[str, float]] = {}
    for name, stretches in values.items():
        for one in stretches:
            row = found.setdefault(hour_of(one.until), {})
            row[name] = max(row.get(name, 0.0), one.value)
    return [Row(max(at, since), [row.get(name) for name in _NAMES]) for at, row in sorted(found.items())]


def _add_up(spending: Sequence[Spending]) -> list[tuple[str, float]]:
    found = defaultdict[str, float](float)
    for one in spending:
        for cause, amount in one.amounts.items():
            found[cause] += amount
    return sorted(found.items(), key=lambda one: -one[1])
