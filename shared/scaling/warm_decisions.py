"""Decisions about the instances that planned openings warm, as functions of plain data. Makes no request.

One record per installation holds every planned opening, and every scale group (the instances of one function) whose
count was raised for one. A group's record has its count from before, the *base*, and each count written since. Any
other count was set by another writer, such as an operator, and stays.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from shared.scaling.instances import LEAD, end_at_latest
from shared.scaling.site import Scale

#: The time between two checks while a change is not confirmed: one tick.
SOON: Final = timedelta(minutes=1)
#: The time between two checks while the released work runs.
EVERY: Final = timedelta(minutes=2)
#: After a count is back at its base, a write that was sent before may still arrive. This exceeds functionTimeout.
WATCH: Final = timedelta(minutes=15)
#: Past openings that the record keeps.
MOST_PAST: Final = 50
#: The gate and the time of an opening.
OpeningKey: TypeAlias = tuple[str, datetime]


class WarmProgress(Enum):
    """How far an opening is whose instances are due."""

    #: It is still planned for its time.
    WAITS = "waits"
    #: It took place, and a job that it released is not finished.
    WORKS = "works"
    #: It was cancelled or moved, or everything that it released is finished.
    ENDED = "ended"


class WarmOpening(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A planned opening that warms instances."""

    gate: str
    opens_at: datetime
    #: The gate's epoch when the opening was planned. A higher one later shows that the gate was opened.
    epoch: int
    #: The planned time from the opening to the last chunk.
    within: timedelta
    #: Instances at most.
    most: int
    by: str
    #: By scale group. None: it has not started.
    wanted: dict[str, int] | None = None

    @property
    def starts_at(self) -> datetime:
        """When the instances are wanted from."""
        return self.opens_at - LEAD

    @property
    def until(self) -> datetime:
        """When they are given back at the latest."""
        return end_at_latest(self.opens_at, self.within)

    @property
    def key(self) -> OpeningKey:
        """Its gate and its time: a gate may have its next opening planned while the work of the last one runs."""
        return self.gate, self.opens_at


class WarmGroup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scale group whose count was raised."""

    #: The count before. None: the group was not in the list.
    base: int | None
    #: Every count that was written since, the last one last.
    ours: tuple[int, ...] = ()
    #: Whether the last one was read back.
    is_confirmed: bool = False
    #: Since when the count is back at its base with no opening that wants more.
    back_since: datetime | None = None


class WarmRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of the record."""

    v: int = 1
    #: The resource id of the app.
    site: str = ""
    openings: tuple[WarmOpening, ...] = ()
    groups: dict[str, WarmGroup] = field(default_factory=dict)
    #: The last openings that had instances. Only their measured delays are those of a warm opening.
    past: tuple[OpeningKey, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if nothing is planned and nothing is to be given back."""
        return not self.openings and not self.groups


class Kept(NamedTuple):
    """A count that another writer set, which is therefore not given back."""

    group: str
    found: int
    base: int


class WarmDecision(NamedTuple):
    """The record to write, then the counts to send, and when to check again. None as a count: the group leaves the list."""

    record: WarmRecord
    counts: dict[str, int | None]
    kept: list[Kept]
    again_at: datetime | None


def add_opening(record: WarmRecord, opening: WarmOpening, now: datetime) -> WarmRecord:
    """Plan an opening. It takes the place of the one that its gate had planned. Planning it again changes nothing."""
    for one in record.openings:
        if one.key == opening.key and replace(one, wanted=None, epoch=opening.epoch) == opening:
            return record
    return replace(record, openings=(*_without(record, opening.gate, now), opening))


def drop_opening(record: WarmRecord, gate: str, now: datetime) -> WarmRecord:
    """Drop the planned opening of a gate. Its instances are given back at the next check."""
    left = _without(record, gate, now)
    return record if left == record.openings else replace(record, openings=left)


def _without(record: WarmRecord, gate: str, now: datetime) -> tuple[WarmOpening, ...]:
    # An opening that took place stays: its work may still run.
    return tuple(one for one in record.openings if one.gate != gate or one.opens_at <= now)


def has_started(opening: WarmOpening, now: datetime) -> bool:
    """Check whether the instances of an opening are due."""
    return opening.starts_at <= now < opening.until


def decide(
    record: WarmRecord, scale: Scale, progress: Mapping[OpeningKey, WarmProgress], now: datetime
) -> WarmDecision:
    """Decide on the counts of an app. `progress` has all openings that have started."""
    openings = tuple(one for one in record.openings if not _is_over(one, progress, now))
    wanted = scale.fit(_largest(one for one in openings if has_started(one, now)))
    groups: dict[str, WarmGroup] = {}
    counts: dict[str, int | None] = {}
    kept: list[Kept] = []
    for name in sorted({*wanted, *record.groups}):
        known, found = record.groups.get(name), scale.counts.get(name)
        group, count = _decide_group(known, found, wanted.get(name, 0), now)
        if group is not None:
            groups[name] = group
        elif known is not None and _number(found) != _number(known.base):
            kept.append(Kept(name, _number(found), _number(known.base)))
        if count != found:
            counts[name] = count
    opened = (one.key for one in record.openings if one not in openings and one.wanted and one.opens_at <= now)
    after = replace(record, openings=openings, groups=groups, past=(*record.past, *opened)[-MOST_PAST:])
    return WarmDecision(after, counts, kept, _again_at(after, counts, progress, now))


def _is_over(opening: WarmOpening, progress: Mapping[OpeningKey, WarmProgress], now: datetime) -> bool:
    if now >= opening.until:
        return True
    return has_started(opening, now) and progress[opening.key] is WarmProgress.ENDED


def _largest(openings: Iterable[WarmOpening]) -> dict[str, int]:
    """Openings at the same time share instances: each group has the largest count that one of them wants."""
    wanted: dict[str, int] = {}
    for opening in openings:
        for name, count in (opening.wanted or {}).items():
            wanted[name] = max(count, wanted.get(name, 0))
    return wanted


def _decide_group(
    group: WarmGroup | None, found: int | None, want: int, now: datetime
) -> tuple[WarmGroup | None, int | None]:
    """Return the group's record, None if there is nothing to remember, and the count that it is to have."""
    if group is None:
        if want <= _number(found):
            return None, found
        group = WarmGroup(base=found)
    if group.ours and _number(found) == group.ours[-1]:
        group = replace(group, is_confirmed=True)
    if _number(found) not in {_number(group.base), *group.ours}:
        # Another writer's count stays, whether it is higher or lower.
        return (group if want else None), found
    return _raise_group(group, found, want) if want else _give_back(group, found, now)


def _raise_group(group: WarmGroup, found: int | None, want: int) -> tuple[WarmGroup, int | None]:
    goal = max(want, _number(group.base))
    # Only another writer can have lowered a count that was read back, and nothing more is wanted since.
    is_lowered = group.is_confirmed and bool(group.ours) and _number(found) < goal <= group.ours[-1]
    group = replace(group, back_since=None)
    if _number(found) == goal or is_lowered:
        return group, found
    return _note_count(group, goal), goal


def _give_back(group: WarmGroup, found: int | None, now: datetime) -> tuple[WarmGroup | None, int | None]:
    group = _note_count(group, _number(group.base))
    if _number(found) != _number(group.base):
        return replace(group, back_since=None), group.base
    since = group.back_since or now
    return (None if now - since >= WATCH else replace(group, back_since=since, is_confirmed=True)), found


def _note_count(group: WarmGroup, count: int) -> WarmGroup:
    return replace(group, ours=(*(one for one in group.ours if one != count), count), is_confirmed=False)


def _again_at(
    record: WarmRecord, counts: Mapping[str, object], progress: Mapping[OpeningKey, WarmProgress], now: datetime
) -> datetime | None:
    times = [_next_of_opening(one, progress, now) for one in record.openings]
    times += [group.back_since + WATCH for group in record.groups.values() if group.back_since]
    # A change that was sent may be lost or take its time: it is done when it is read back.
    if counts or not all(group.is_confirmed for group in record.groups.values()):
        times.append(now + SOON)
    return min(times, default=None)


def _next_of_opening(opening: WarmOpening, progress: Mapping[OpeningKey, WarmProgress], now: datetime) -> datetime:
    if now < opening.starts_at:
        return opening.starts_at
    again_at = min(now + EVERY, opening.until)
    waits = progress[opening.key] is WarmProgress.WAITS and now < opening.opens_at
    return min(again_at, opening.opens_at) if waits else again_at


def _number(count: int | None) -> int:
    return count or 0
