"""Reads the past from rows of hours: when no tick ran, how long a need stood, and what stood at a moment. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, NamedTuple

from shared.watch.needs import SILENT, TICK, Need, is_kind_of_job, name_kind
from shared.watch.points import HOUR, Act, Hour, PointAt

#: A point may be later than promised by this: a tick begins late, and its write takes time.
GRACE: Final = timedelta(minutes=1)
#: A tick that is silent for longer than the longest tick may last is down.
DOWN: Final = timedelta(minutes=10)
#: An idle tick writes each quarter of an hour.
_FIRST_WITHIN: Final = timedelta(minutes=17)
#: Acts within this time of a moment are shown with it.
AROUND: Final = timedelta(minutes=30)


class Gap(NamedTuple):
    """A time without a point, although one was promised: no tick ran, or none could write."""

    since: datetime
    until: datetime


class Stood(NamedTuple):
    """A need, from when it was first known to stand until it ended. `last` is None: it stands."""

    kind: str
    about: str
    is_grave: bool
    first: datetime
    last: datetime | None

    @property
    def words(self) -> str:
        """Return its kind in words."""
        return name_kind(self.kind)

    @property
    def is_of_job(self) -> bool:
        """Return whether it is about a job."""
        return is_kind_of_job(self.kind)


class PastMoment(NamedTuple):
    """A moment, and the things around it."""

    at: datetime
    #: The last point until then.
    point: PointAt | None
    #: The gap that it lies in.
    gap: Gap | None
    stood: Sequence[Stood]
    acts: Sequence[Act]


class Spending(NamedTuple):
    """The cost of the requests of a time, by their cause."""

    since: datetime
    until: datetime
    amounts: Mapping[str, float]

    @property
    def total(self) -> float:
        """The sum of all causes."""
        return sum(self.amounts.values())

    @property
    def an_hour(self) -> float:
        """The cost of an hour like this time."""
        return self.total * HOUR / (self.until - self.since)


def list_spending(hours: Iterable[Hour]) -> list[Spending]:
    """Return the costs between each two readings. A process notes late, so a reading has what was known then."""
    readings = [one for hour in hours for one in hour.spent]
    found = []
    for before, after in pairwise(readings):
        midnight = after.at.replace(hour=0, minute=0, second=0, microsecond=0)
        # A day begins at nothing.
        known = before.amounts if before.at >= midnight else {}
        amounts = {name: max(0.0, amount - known.get(name, 0.0)) for name, amount in after.amounts.items()}
        if after.at > (since := max(before.at, midnight)):
            found.append(Spending(since, after.at, amounts))
    return found


def list_points(hours: Iterable[Hour]) -> list[PointAt]:
    """Return the points of hours that are in the order of time."""
    return [point for hour in hours for point in hour.points]


def find_last_point(hours: Sequence[Hour]) -> PointAt | None:
    """Return the last point of these hours, if there is one."""
    return next((hour.points[-1] for hour in reversed(hours) if hour.points), None)


def list_gaps(hours: Sequence[Hour], since: datetime, until: datetime) -> list[Gap]:
    """Return the times between two moments without a tick. Before the first point of all, nothing is known."""
    points = list_points(hours)
    known = [Gap(one.at, after.at) for one, after in pairwise(points) if after.at > one.promised + GRACE]
    if points and points[0].at - since > _FIRST_WITHIN:
        known.insert(0, Gap(since, points[0].at))
    if not points:
        known.append(Gap(since, until))
    elif is_silent(points[-1], until):
        known.append(Gap(points[-1].at, until))
    return [
        Gap(max(since, one.since), min(until, one.until)) for one in known if one.until > since and one.since < until
    ]


def find_silence(hours: Sequence[Hour], now: datetime) -> Need | None:
    """Return the need that the tick is silent, if it is. None also where no tick of the last hours recorded anything."""
    points = list_points(hours)
    if not points or not is_silent(points[-1], now):
        return None
    last = points[-1]
    found = f"it has written nothing since {last.at:%Y-%m-%d %H:%M:%S} UTC, and promised to by {last.promised:%H:%M:%S}"
    return Need(SILENT, TICK, found, now, last.at, is_grave=is_down(last, now))


def is_silent(last: PointAt, now: datetime) -> bool:
    """Check whether the next point is late."""
    return now > last.promised + GRACE


def is_down(last: PointAt, now: datetime) -> bool:
    """Check whether it is so late that no tick can still be running."""
    return now > last.promised + DOWN


class _Standing:
    """The needs that stand while hours are read one after the other."""

    def __init__(self) -> None:
        self.since: dict[tuple[str, str], tuple[datetime, bool]] = {}
        self.ended: list[Stood] = []

    def begin(self, key: tuple[str, str], at: datetime, *, is_grave: bool) -> None:
        """Note that a need stands at a moment, since before if it is known."""
        first, _ = self.since.get(key, (at, is_grave))
        self.since[key] = (min(first, at), is_grave)

    def end(self, key: tuple[str, str], at: datetime) -> None:
        """Note that a need has ended. One that is not known to stand has."""
        if key in self.since:
            first, is_grave = self.since.pop(key)
            self.ended.append(Stood(*key, is_grave, first, max(first, at)))

    def keep(self, wanted: Iterable[tuple[str, str]], at: datetime) -> None:
        """End all others."""
        for key in set(self.since) - set(wanted):
            self.end(key, at)

    def read(self, hour: Hour, until: datetime) -> None:
        """Follow the marks of an hour up to a moment."""
        if hour.opened is not None:
            for kind, about, is_grave in hour.opened.names:
                self.begin((kind, about), hour.at, is_grave=is_grave)
            if hour.opened.is_whole:
                self.keep([name[:2] for name in hour.opened.names], hour.at)
        for change in (one for one in hour.changes if one.at <= until):
            if change.begins:
                self.begin(change.key, change.at, is_grave=change.is_grave)
            else:
                self.end(change.key, change.at)


def list_stood(hours: Iterable[Hour], until: datetime, standing: Iterable[Need] | None = None) -> list[Stood]:
    """Return the needs that stood until a moment, the first ones first. `standing`: those that stand then, all of them.

    Marks that share a slot replace each other, and a writer may be killed. So what is read at the beginning of an hour,
    and what stands now, correct what the marks say.
    """
    known = _Standing()
    for hour in hours:
        if hour.at <= until:
            known.read(hour, until)
    if standing is not None:
        needs = list(standing)
        for need in needs:
            known.begin((need.kind, need.about), need.since or need.at, is_grave=need.is_grave)
        known.keep([(need.kind, need.about) for need in needs], until)
    stands = [Stood(*key, is_grave, first, None) for key, (first, is_grave) in known.since.items()]
    return sorted([*known.ended, *stands], key=lambda one: (one.first, one.kind, one.about))


def find_moment(hours: Sequence[Hour], at: datetime) -> PastMoment:
    """Return a moment by the row of its hour and of the hours beside it."""
    points = list_points(hours)
    before = [one for one in points if one.at <= at]
    after = [one for one in points if one.at > at]
    gap = None
    if before and is_silent(before[-1], after[0].at if after else at):
        gap = Gap(before[-1].at, after[0].at if after else at)
    acts = [one for hour in hours for one in hour.acts if abs(one.at - at) <= AROUND]
    stood = [one for one in list_stood(hours, at) if one.last is None]
    return PastMoment(at, before[-1] if before else None, gap, stood, acts)
