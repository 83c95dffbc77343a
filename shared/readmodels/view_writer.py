"""Brings rows of views up to ranges of events: read where needed, fold, write on condition, and again after a race.

Projectors: messages of events become rows of views. They have no sender, so that a replay can send no command.

Several requests at the same time, and by them: homes in batches whose events fit into memory together.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from threading import Lock
from typing import Final, Protocol, TypeVar

from shared.clock import LOST_RACES, Clock, Retry
from shared.errors import ViewCorruptError
from shared.processes import Event, EventRange, Head, Homes
from shared.readmodels.pointers import STANDS_AFTER, KeptPointer, ModelPointer, Slot
from shared.readmodels.projection import Folded, Model, Projection, ViewKey, fold, tail
from shared.readmodels.slot_table import SlotTable, StoredView, ViewPlace, split
from shared.telemetry import events, tell

#: Requests that one call makes at the same time.
PARALLEL: Final = 8
_Item = TypeVar("_Item")
_Outcome = TypeVar("_Outcome")


def call_each(act: Callable[[_Item], _Outcome], items: Iterable[_Item]) -> list[_Outcome]:
    """Call `act` with each item, several at the same time, and return the outcomes in the order of the items."""
    items = list(items)
    if len(items) <= 1:
        return [act(one) for one in items]
    with ThreadPoolExecutor(min(PARALLEL, len(items))) as pool:
        # Each in a copy of this context, so that its requests are counted for their cause.
        return [one.result() for one in [pool.submit(copy_context().run, act, one) for one in items]]


#: Events that are in memory at the same time, except those of one large home.
MOST_EVENTS: Final = 5000


def read_homes(homes: Homes, heads: Sequence[tuple[str, Head]]) -> Iterator[list[tuple[str, list[Event]]]]:
    """Yield the homes of a page of heads with all of their events, in batches."""
    for batch in _batches(heads):
        yield list(zip(batch, call_each(lambda home: homes.read_tail(home, 0), batch), strict=True))


def _batches(heads: Sequence[tuple[str, Head]]) -> Iterator[list[str]]:
    some: list[str] = []
    events = 0
    for key, head in heads:
        if some and events + head.version > MOST_EVENTS:
            yield some
            some, events = [], 0
        some.append(key)
        events += head.version
    if some:
        yield some


#: Rows of one model that a process keeps: some hundred bytes each.
MOST_KEPT: Final = 5000


class KeptViews:
    """Rows that this process wrote or read last, by version and home. Several threads may use it.

    A write begins with one of them instead of a read. Its ETag proves it: if another process has written the row since,
    the write is refused, and the row is read.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, str], StoredView] = OrderedDict()
        self._lock = Lock()

    def find(self, version: object, home: str) -> StoredView | None:
        """Return the row of a home in a version, or None."""
        with self._lock:
            return self._kept.get((version, home))

    def keep(self, version: object, views: Iterable[StoredView]) -> None:
        """Keep rows of a version."""
        with self._lock:
            for one in views:
                self._kept[version, one.home] = one
                self._kept.move_to_end((version, one.home))
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)


class EventLog(Protocol):
    """The part of the homes that a projector has. It reads events, and cannot write or send anything."""

    def read_tail(self, key: str, after: int) -> list[Event]:
        """Return the events above a version, in order."""
        ...


@dataclass(slots=True)
class ViewCounts:
    """The effect of one call, for counters."""

    #: Rows that were written.
    rows: int = 0
    #: Homes whose ranges were all seen before.
    dropped: int = 0
    #: Homes of which events were missing and were read from the log.
    gaps: int = 0
    #: Transactions that another writer's were before.
    lost: int = 0


@dataclass(slots=True)
class _Work:
    """One home's ranges on their way into its row."""

    home: str
    ranges: list[EventRange]
    place: ViewPlace
    #: The row that was read, kept or supposed: before a home's first events, an empty one. None: it has to be read.
    before: StoredView | None = None
    #: Whether it was read by this call. A row that was kept or supposed may be wrong, and a refused write says so.
    is_read: bool = False
    after: Folded | None = None

    @property
    def nothing(self) -> StoredView:
        """The row of a home that has none."""
        return StoredView(place=self.place, home=self.home, seen=0, view=None)

    @property
    def begins(self) -> bool:
        """True if the ranges begin with the home's first event."""
        return min(one.first for one in self.ranges) == 1


class ViewWriter:
    """Writes the rows of a model. One per process. Several threads may use it."""

    def __init__(
        self, model: Model, slots: Mapping[Slot, SlotTable], log: EventLog, *, races: Retry = LOST_RACES
    ) -> None:
        self._model, self._slots, self._log, self._races = model, slots, log, races
        self._kept = KeptViews()

    def write(self, version: int, slot: Slot, ranges: Iterable[EventRange]) -> ViewCounts:
        """Bring the rows of these homes up to the ranges. Rows that have seen as much stay unchanged."""
        projection, written = self._model.projection(version), ViewCounts()
        left = list(self._works(projection, slot, ranges))

        def attempt(_number: int) -> bool:
            nonlocal left
            call_each(lambda work: self._read(slot, work), [work for work in left if work.before is None])
            gaps = [work for work in left if _fold(projection, work).is_gap]
            call_each(lambda work: self._fold_gap(projection, work), gaps)
            parts = list(_parts(left))
            answers = call_each(lambda part: self._slots[slot].try_write([row for _, row in part]), parts)
            refused = [work for part, done in zip(parts, answers, strict=True) if done is None for work, _ in part]
            rows = [row for done in answers if done is not None for row in done]
            same = [work.before for work in left if work.is_read and work.before and not _is_changed(work)]
            self._kept.keep((slot, version), [*rows, *(row for row in same if row.etag)])
            written.rows += len(rows)
            written.gaps += len(gaps)
            written.dropped += sum(not _is_changed(work) for work in left)
            written.lost += sum(done is None for done in answers)
            left = refused
            _doubt(left)
            return not left

        self._races.until_done(attempt, f"write views of {self._model.name} {version}")
        return written

    def _works(self, projection: Projection, slot: Slot, ranges: Iterable[EventRange]) -> Iterator[_Work]:
        by_home: dict[str, list[EventRange]] = defaultdict(list)
        for one in ranges:
            by_home[one.home].append(one)
        nameless = []
        for home, its in by_home.items():
            kept = self._kept.find((slot, projection.version), home)
            key = None if kept else projection.key(home, [event for one in its for event in one.events])
            if kept:
                yield _Work(home, its, kept.place, kept)
            elif key:
                yield self._begin(projection, home, its, key)
            else:
                nameless.append(home)
        yield from call_each(lambda home: self._begin_with_all(projection, home), nameless)

    def _begin(self, projection: Projection, home: str, ranges: list[EventRange], key: ViewKey) -> _Work:
        work = _Work(home, ranges, ViewPlace.of(self._model.name, projection.version, key))
        work.before = work.nothing if work.begins else None
        return work

    def _begin_with_all(self, projection: Projection, home: str) -> _Work:
        """Begin with all events of a home, because those of the message do not name its row. So it likely has one."""
        whole = tail(home, 0, self._log.read_tail(home, 0))
        key = projection.key(home, whole.events)
        if key is None:
            raise ViewCorruptError(
                f"could not project {home!r} into {self._model.name} {projection.version}: none of its "
                f"{len(whole.events)} events in the log names the key of its row; restore the events of the home"
            )
        return _Work(home, [whole], ViewPlace.of(self._model.name, projection.version, key))

    def _read(self, slot: Slot, work: _Work) -> None:
        work.before, work.is_read = self._slots[slot].find(work.place) or work.nothing, True

    def _fold_gap(self, projection: Projection, work: _Work) -> None:
        """Fold a home's events again, with those that are missing, which its log has."""
        seen = work.before.seen if work.before else 0
        missing = tail(work.home, seen, self._log.read_tail(work.home, seen))
        known = max(one.last for one in work.ranges)
        if missing.last < known:
            raise ViewCorruptError(
                f"could not project {work.home!r}: a message has its events up to {known}, the log ends at {missing.last}; "
                "an earlier state of the table `homes` was restored, restore a later one"
            )
        work.ranges = [missing]
        _fold(projection, work)


def _fold(projection: Projection, work: _Work) -> Folded:
    before = work.before or work.nothing
    work.after = fold(projection, Folded(before.seen, before.view), work.ranges)
    return work.after


def _is_changed(work: _Work) -> bool:
    before, after = work.before or work.nothing, work.after
    return after is not None and after.view is not None and (after.seen, after.view) != (before.seen, before.view)


def _parts(works: Iterable[_Work]) -> Iterator[list[tuple[_Work, StoredView]]]:
    """Yield the rows that change, in parts of one transaction, each row with its work."""
    by_partition: dict[str, dict[str, _Work]] = defaultdict(dict)
    for work in works:
        if _is_changed(work):
            by_partition[work.place.partition][work.home] = work
    for found in by_partition.values():
        for part in split([_row(work) for work in found.values()]):
            yield [(found[row.home], row) for row in part]


def _row(work: _Work) -> StoredView:
    after = work.after or Folded(0, None)
    etag = work.before.etag if work.before else ""
    return StoredView(place=work.place, home=work.home, seen=after.seen, view=after.view, etag=etag)


def _doubt(refused: Sequence[_Work]) -> None:
    """Forget the rows that made a write fail: those not read by this call, or if all were read, all of them."""
    doubtful = [work for work in refused if not work.is_read] or refused
    for work in doubtful:
        work.before = None


class Projector:
    """Projects the events of one model's homes, into every version that the model's pointer names."""

    def __init__(
        self, pointer: KeptPointer, writer: ViewWriter, clock: Clock, note_standing: Callable[[str, str], object]
    ) -> None:
        self._pointer, self._writer, self._clock, self._note = pointer, writer, clock, note_standing
        #: From when on a migration that stands still may be logged again.
        self._log_from = clock.now()

    def project(self, ranges: Iterable[EventRange]) -> list[ViewCounts]:
        """Bring the rows of these homes up to the ranges, in each version. Afterwards their message may be completed.

        A migration begins with a pointer that names a second version, and scans the log 10 seconds later. An event must
        be in that scan, or be written to both versions. So the pointer of this call is at most 5 seconds old before the
        writes. If it is older after them, it is read again, and a version that it names now gets the events too. Hence
        an event that only one version got was in the log less than 5 seconds after the pointer was written.
        """
        ranges = list(ranges)
        written = []
        done = set()
        while True:
            pointer = self._pointer.get()
            self._log_standing(pointer)
            for place in pointer.places:
                if place not in done:
                    written.append(self._writer.write(*place, ranges))
                    done.add(place)
            if self._pointer.is_young():
                return written

    def _log_standing(self, pointer: ModelPointer) -> None:
        """Log a migration that stands still, once in half an hour, and note that it needs a person. Its killed command cannot."""
        now = self._clock.now()
        silent = pointer.stands(now)
        self._note(pointer.model, f"{pointer.phase}: no progress for half an hour and more" if silent else "")
        if silent is not None and now >= self._log_from:
            self._log_from = now + STANDS_AFTER
            tell(
                events.MIGRATION_STANDS,
                model=pointer.model,
                phase=str(pointer.phase),
                target=pointer.target,
                silent_seconds=round(silent.total_seconds()),
            )
