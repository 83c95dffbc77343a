"""The rows of hours: what ticks saw each minute, which needs began and ended, and who acted. Pure.

A column of an hour has one writer at a time, who merges it without reading. `m14` is a minute. `a`, `b` and `e` with a
slot are an act, a need that began, and one that ended. `open` has the needs at the beginning of the hour. `u1` is the
cost of the day until then, as a tick of the second ten minutes read it.

A slot is made from the names, and marks that share one replace each other. So an hour never has more columns than a row
may.

A mark has no sentence: those of needs quote errors of workloads, and rows of hours are erased for no job.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple, TypeVar
from zlib import crc32

import msgspec

from shared.versions import decode
from shared.watch.needs import Need

VERSION: Final = 1
HOUR: Final = timedelta(hours=1)
#: Minutes between two points of idle ticks.
IDLE_EVERY: Final = 15
#: Slots of an hour. With the minutes, the costs, the keys and `open` these are 239 columns; a row takes 252.
ACT_SLOTS, NEED_SLOTS = 48, 60
OPEN: Final = "open"
#: Minutes between two readings of the cost of a day.
SPENT_EVERY: Final = 10
#: Needs that the beginning of an hour names. The numbers count all.
MOST_NAMED: Final = 20
#: Characters of each name of an act.
_LONGEST_NAME: Final = 100


class PointHead(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The beginning of a point, the same in every version."""

    v: int = VERSION
    #: Of its minute.
    second: float
    #: Seconds until the next point, at the latest.
    promise: int


class Point(PointHead, frozen=True, array_like=True, kw_only=True):
    """The view of one tick. A later version may add fields at the end."""

    #: The time that the counts are of. 0: no job was open, or the process has no sample of before.
    seconds: float = 0.0
    arrived: int = 0
    drained: int = 0
    depth: int = 0
    tasks: int = 0
    oldest_age: float | None = None
    latency: float | None = None
    cpu: float | None = None
    payload_bytes: float | None = None
    in_flight: int | None = None
    binding: str = ""
    processes: int = 0
    transactions: int = 0
    failed: int = 0
    #: That of the program that ticked.
    release: str = ""


class _ActMark(msgspec.Struct, frozen=True, array_like=True):
    v: int
    at: float
    who: str
    what: str
    target: str
    result: str


class _NeedMark(msgspec.Struct, frozen=True, array_like=True):
    v: int
    at: float
    kind: str
    about: str
    is_grave: bool


class _OpenMark(msgspec.Struct, frozen=True, array_like=True):
    v: int
    names: list[tuple[str, str, bool]]
    numbers: dict[str, int]


class _SpentMark(msgspec.Struct, frozen=True, array_like=True):
    v: int
    at: float
    amounts: dict[str, float]


class SpentUntil(NamedTuple):
    """The cost of all requests of a day until a moment, by their cause, as far as processes had noted them."""

    at: datetime
    amounts: Mapping[str, float]


class PointAt(NamedTuple):
    """A point and its moment. One of a newer version has its head alone."""

    at: datetime
    promised: datetime
    point: Point | None


class Act(NamedTuple):
    """An act that ended."""

    at: datetime
    who: str
    what: str
    target: str
    result: str


class Change(NamedTuple):
    """A need that began, or ended."""

    at: datetime
    kind: str
    about: str
    is_grave: bool
    begins: bool

    @property
    def key(self) -> tuple[str, str]:
        """Return which need it is."""
        return self.kind, self.about


class OpenedNeeds(NamedTuple):
    """The needs at the beginning of an hour: some by name, and the number of each kind."""

    names: tuple[tuple[str, str, bool], ...]
    numbers: Mapping[str, int]

    @property
    def is_whole(self) -> bool:
        """Return whether each one is named."""
        return sum(self.numbers.values()) == len(self.names)


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour as its row has it, each list in the order of time."""

    at: datetime
    points: tuple[PointAt, ...] = ()
    acts: tuple[Act, ...] = ()
    changes: tuple[Change, ...] = ()
    #: None: no tick wrote them.
    opened: OpenedNeeds | None = None
    spent: tuple[SpentUntil, ...] = ()
    #: Columns of a newer version.
    unknown: int = field(default=0)


def hour_of(moment: datetime) -> datetime:
    """Return the beginning of its hour, in UTC."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def hours_of_day(day: date) -> tuple[datetime, datetime]:
    """Return the first and the last hour of a day in UTC."""
    begin = datetime.combine(day, time(), UTC)
    return begin, begin + 23 * HOUR


def hour_key(moment: datetime) -> str:
    """Return the key of the row of its hour. Keys count up."""
    return f"0|{moment.astimezone(UTC):%Y-%m-%dT%H}"


def pack_point(at: datetime, point: Point) -> dict[str, str]:
    """Return the column of a point. Two of one minute have the same."""
    return {f"m{at.astimezone(UTC).minute:02}": _text(point)}


def pack_act(act: Act) -> dict[str, str]:
    """Return the column of an act."""
    who, what, target, result = (one[:_LONGEST_NAME] for one in act[1:])
    mark = _ActMark(VERSION, _second_of_hour(act.at), who, what, target, result)
    return {f"a{_slot(f'{act.at.isoformat()}|{what}|{target}', ACT_SLOTS):02x}": _text(mark)}


def pack_change(change: Change) -> dict[str, str]:
    """Return the column of a need that began or ended."""
    mark = _NeedMark(VERSION, _second_of_hour(change.at), change.kind, change.about, change.is_grave)
    slot = _slot(f"{change.kind}|{change.about}", NEED_SLOTS)
    return {f"{'b' if change.begins else 'e'}{slot:02x}": _text(mark)}


def pack_spent(spent: SpentUntil) -> dict[str, str]:
    """Return the column of the cost of a day. Two of the same ten minutes have the same."""
    amounts = {cause: float(f"{amount:.4g}") for cause, amount in spent.amounts.items()}
    mark = _SpentMark(VERSION, _second_of_hour(spent.at), amounts)
    return {f"u{spent.at.astimezone(UTC).minute // SPENT_EVERY}": _text(mark)}


def pack_open(needs: Iterable[Need]) -> dict[str, str]:
    """Return the column of the needs at the beginning of an hour."""
    found = list(needs)
    names = [(one.kind, one.about, one.is_grave) for one in found[:MOST_NAMED]]
    return {OPEN: _text(_OpenMark(VERSION, names, dict(Counter(one.kind for one in found))))}


def read_hour(row: Mapping[str, Any]) -> Hour:
    """Read a row. What a newer version wrote otherwise is counted and left out."""
    begin = datetime.fromisoformat(f"{row['RowKey'].removeprefix('0|')}:00:00+00:00")
    points, acts, changes, unknown = list[PointAt](), list[Act](), list[Change](), 0
    opened, spent = None, list[SpentUntil]()
    for name, text in row.items():
        letter, slot = name[:1], name[1:]
        if name == OPEN:
            mark = _read(text, _OpenMark)
            opened = OpenedNeeds(tuple(mark.names), mark.numbers) if mark else None
        elif letter == "m" and slot.isdigit():
            points += _read_point(begin + timedelta(minutes=int(slot)), text)
        elif letter == "a" and _is_slot(slot) and (act := _read(text, _ActMark)):
            acts.append(Act(begin + timedelta(seconds=act.at), act.who, act.what, act.target, act.result))
        elif letter in {"b", "e"} and _is_slot(slot) and (need := _read(text, _NeedMark)):
            at = begin + timedelta(seconds=need.at)
            changes.append(Change(at, need.kind, need.about, need.is_grave, letter == "b"))
        elif letter == "u" and slot.isdigit() and (cost := _read(text, _SpentMark)):
            spent.append(SpentUntil(begin + timedelta(seconds=cost.at), cost.amounts))
        elif name not in {"PartitionKey", "RowKey"}:
            unknown += 1
    return Hour(
        begin,
        tuple(sorted(points)),
        tuple(sorted(acts)),
        tuple(sorted(changes, key=lambda one: (one.at, not one.begins))),
        opened,
        tuple(sorted(spent, key=lambda one: one.at)),
        unknown,
    )


def _read_point(minute: datetime, text: Any) -> Iterator[PointAt]:
    head = _read(text, PointHead, versions=None)
    if head is not None:
        at = minute + timedelta(seconds=head.second)
        yield PointAt(at, at + timedelta(seconds=head.promise), _read(text, Point))


_Mark = TypeVar("_Mark", PointHead, Point, _ActMark, _NeedMark, _OpenMark, _SpentMark)


def _read(text: Any, kind: type[_Mark], versions: int | None = VERSION) -> _Mark | None:
    try:
        found = decode(str(text), kind)
    except msgspec.DecodeError:
        return None
    return found if versions is None or found.v == versions else None


def _text(mark: msgspec.Struct) -> str:
    return msgspec.json.encode(mark).decode()


def _second_of_hour(at: datetime) -> float:
    return round((at - hour_of(at)).total_seconds(), 1)


def _slot(names: str, slots: int) -> int:
    return crc32(names.encode()) % slots


def _is_slot(text: str) -> bool:
    return len(text) == 2 and all(one in "0123456789abcdef" for one in text)
