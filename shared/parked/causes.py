"""The sums of a cause as plain data: how many entries are open, and what a page says about them. Pure.

Each process counts in a row of its own. The number of a cause is the sum over these rows. A process that only closes
has more closed than parked, so one row alone means nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from shared.parked.entry import DOOR, Entry
from shared.topology import room_of_queue

#: Hours of the trend.
TREND_HOURS: Final = 24
#: Jobs that a cause names: those of its last entries.
MOST_JOBS: Final = 5
_HOUR: Final = timedelta(hours=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseSums:
    """The counts of one cause, by one process or by all of them."""

    fingerprint: str
    parked: int = 0
    closed: int = 0
    #: Of the entry that was counted last. Empty in the row of a process that only closed.
    reason: str = ""
    stage: str = ""
    instead: str = ""
    found: str = ""
    place: str = ""
    first_at: datetime | None = None
    last_at: datetime | None = None
    #: Entries counted in each hour since 1970, of the last hours only.
    hours: Mapping[int, int]
    #: The jobs of the last entries, the last one first. `found` is of the first of them.
    jobs: tuple[str, ...] = ()
    #: Open entries at the door, by the room of their queue.
    rooms: Mapping[str, int] = field(default_factory=dict)
    #: Messages above the bound at the door, and the files that have them.
    over: int = 0
    files: int = 0

    @property
    def is_shown(self) -> bool:
        """Return whether a person still has something to decide."""
        return self.open > 0 or self.over > 0

    @property
    def number(self) -> str:
        """Return how many there are, in words."""
        return f"{self.open:,}" + (f" and {self.over:,} more in {files_in_words(self.files)}" if self.over else "")

    @property
    def open(self) -> int:
        """Return how many entries are open."""
        return self.parked - self.closed

    def trend(self, now: datetime) -> list[int]:
        """Return the entries counted in each of the last hours, the last hour at the end."""
        newest = _hour_of(now)
        return [self.hours.get(newest - ago, 0) for ago in reversed(range(TREND_HOURS))]


def count_nothing(fingerprint: str) -> CauseSums:
    """Return the sums of a process that counted nothing of this cause."""
    return CauseSums(fingerprint=fingerprint, hours={})


def count_parked(sums: CauseSums, entry: Entry) -> CauseSums:
    """Return the sums with one entry more."""
    hour = _hour_of(entry.last_at)
    one = CauseSums(
        fingerprint=sums.fingerprint,
        parked=1,
        reason=entry.reason,
        stage=entry.stage,
        instead=entry.instead,
        found=entry.found,
        place=entry.place,
        first_at=entry.first_at,
        last_at=entry.last_at,
        hours={hour: 1},
        jobs=(entry.about,),
        rooms=_at_the_door(room_at_the_door(entry), 1),
    )
    return join([sums, one])


def count_closed(sums: CauseSums, room: str | None) -> CauseSums:
    """Return the sums with one entry less. `room`: as `room_at_the_door` said."""
    return replace(sums, closed=sums.closed + 1, rooms=_add([sums.rooms, _at_the_door(room, -1)]))


def count_over(sums: CauseSums, entry: Entry, number: int) -> CauseSums:
    """Return the sums of a file after so many messages more, of which this is one."""
    known = count_parked(count_nothing(sums.fingerprint), entry)
    return replace(
        known, parked=0, hours={}, rooms={}, first_at=sums.first_at or known.first_at, over=sums.over + number, files=1
    )


def files_in_words(files: int) -> str:
    """Return how many files they are."""
    return "1 file" if files == 1 else f"{files:,} files"


def room_at_the_door(entry: Entry) -> str | None:
    """Return the room of an entry at the door, or None for any other entry."""
    return room_of_queue(entry.queue) if entry.job == DOOR else None


def _at_the_door(room: str | None, number: int) -> Mapping[str, int]:
    return {} if room is None else {room: number}


def _add(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums = defaultdict[str, int](int)
    for one in counts:
        for room, number in one.items():
            sums[room] += number
    return {room: sums[room] for room in sorted(sums) if sums[room]}


def join(rows: Iterable[CauseSums]) -> CauseSums:
    """Return the sums of rows of one cause: numbers are added, texts are those of the newest entry."""
    newest_first = sorted(rows, key=lambda row: row.last_at or _EPOCH, reverse=True)
    newest = newest_first[0]
    hours = defaultdict[int, int](int)
    for row in newest_first:
        for hour, number in row.hours.items():
            hours[hour] += number
    latest = max(hours, default=0)
    first = [row.first_at for row in newest_first if row.first_at is not None]
    jobs = dict.fromkeys(job for row in newest_first for job in row.jobs)
    return replace(
        newest,
        parked=sum(row.parked for row in newest_first),
        closed=sum(row.closed for row in newest_first),
        first_at=min(first, default=None),
        hours={hour: hours[hour] for hour in sorted(hours) if hour > latest - TREND_HOURS},
        jobs=tuple(jobs)[:MOST_JOBS],
        rooms=_add(row.rooms for row in newest_first),
        over=sum(row.over for row in newest_first),
        files=sum(row.files for row in newest_first),
    )


def join_by_cause(rows: Iterable[CauseSums]) -> list[CauseSums]:
    """Return the causes that have open entries or files, the largest first."""
    found = defaultdict[str, list[CauseSums]](list)
    for row in rows:
        found[row.fingerprint].append(row)
    joined = [join(of_one) for of_one in found.values()]
    return sorted((one for one in joined if one.is_shown), key=lambda one: (-one.open - one.over, one.fingerprint))


def _hour_of(moment: datetime) -> int:
    return (moment - _EPOCH) // _HOUR
