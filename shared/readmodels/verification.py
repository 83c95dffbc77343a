"""Compares the rows of a version with the log, while events go on.

1. All rows of the version are read, and a digest of each is kept.
2. Each home's events are folded up to the version that its row has seen. The digests must be equal.
3. If a row was missing, or had not seen all, it is read again for some time: its events may be on their way.

A row that no home claims, or a second row of a home, is a difference as well. The sums of all digests are the two
checksums, one of the rows and one of the log.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from shared.processes import Event, Homes
from shared.readmodels.projection import Model, Projection, View, fold_all
from shared.readmodels.slot_table import SlotTable, StoredView, ViewPlace, canonical
from shared.readmodels.view_writer import call_each, read_homes

#: How long a row may be behind its home, and the time between two reads of it. Bundles of events take seconds.
PATIENCE: Final = 60.0
_BETWEEN: Final = 2.0
#: Differences that are described. All are counted.
MOST_DESCRIBED: Final = 20
_MODULUS: Final = 2**64


class _Outcome(NamedTuple):
    """Of one more comparison of a row: the digest of a right one, or the fault."""

    fault: str = ""
    digest: int | None = None
    #: True if time changes nothing.
    is_final: bool = False


class _Mark(NamedTuple):
    seen: int
    digest: int


@dataclass(slots=True)
class Verification:
    """The outcome."""

    homes: int = 0
    rows: int = 0
    #: Sums over (place, home, seen, view) of every row, from the rows, and from the log.
    of_rows: int = 0
    of_log: int = 0
    number_of_differences: int = 0
    #: Some of the differences, without values of any view.
    differences: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """True if nothing differs."""
        return not self.number_of_differences and self.of_rows == self.of_log

    @property
    def figures(self) -> Mapping[str, int | str]:
        """Counts and checksums for the pointer."""
        return {
            "verified_homes": self.homes,
            "verified_rows": self.rows,
            "different": self.number_of_differences,
            "checksum_of_rows": f"{self.of_rows:016x}",
            "checksum_of_log": f"{self.of_log:016x}",
        }

    def differ(self, found: str) -> None:
        """Count a difference."""
        self.number_of_differences += 1
        if len(self.differences) < MOST_DESCRIBED:
            self.differences.append(found)

    def add(self, row: int, log: int) -> None:
        """Add the digests of a row, once of the stored row and once of the row that the log makes."""
        self.rows += 1
        self.of_rows = (self.of_rows + row) % _MODULUS
        self.of_log = (self.of_log + log) % _MODULUS


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """Compares one version of a model."""

    model: Model
    projection: Projection
    #: The version that readers used before, for the fields that both have.
    former: Projection
    slot: SlotTable
    homes: Homes
    report: Callable[[str, int], None]
    #: Raises if another migrator has begun.
    demand: Callable[[], None]
    pause: Callable[[float], object]

    def run(self) -> Verification:
        """Compare, and return the outcome."""
        found = Verification()
        marks = self._read_rows(found)
        late = dict(self._compare_homes(marks, found))
        for home, mark in marks.items():
            # Every row is written after the events of its home, and heads are never removed.
            found.add(mark.digest, 0)
            found.differ(f"{home}: it has a row, but no events")
        self._look_again(late, found)
        return found

    def _read_rows(self, found: Verification) -> dict[str, _Mark]:
        marks: dict[str, _Mark] = {}
        for page in self.slot.scan(self.model.name, self.projection.version):
            self.demand()
            for row in page:
                if row.home in marks:
                    found.differ(f"{row.home}: it has two rows, one of them {row.place.key!r}")
                marks[row.home] = _Mark(row.seen, _digest(row))
            self.report("read rows", len(page))
        return marks

    def _compare_homes(self, marks: dict[str, _Mark], found: Verification) -> list[tuple[str, int]]:
        """Compare the marks of all homes, and return the homes that are to be read again, with their versions."""
        late = []
        cursor: str | None = ""
        while cursor is not None:
            page = self.homes.heads(self.model.homes, cursor)
            for batch in read_homes(self.homes, page.heads):
                self.demand()
                for home, events in batch:
                    found.homes += 1
                    self._compare_versions(home, events, found)
                    mark = marks.pop(home, None)
                    expected = self._expect(home, events, mark.seen if mark else 0)
                    if mark and expected and _digest(expected) == mark.digest and self._is_whole(events, mark.seen):
                        found.add(mark.digest, mark.digest)
                    elif mark or self._expect(home, events, events[-1].version):
                        late.append((home, events[-1].version))
                self.report("compared homes", len(batch))
            cursor = page.cursor
        return late

    def _look_again(self, late: dict[str, int], found: Verification) -> None:
        waited = 0.0
        while late:
            outcomes = dict(zip(late, call_each(lambda one: self._read_again(*one), late.items()), strict=True))
            for home, outcome in outcomes.items():
                if outcome.digest is not None:
                    found.add(outcome.digest, outcome.digest)
                elif outcome.is_final or waited >= PATIENCE:
                    found.differ(f"{home}: {outcome.fault}")
            late = {home: late[home] for home, outcome in outcomes.items() if not outcome.is_final}
            if waited >= PATIENCE:
                return
            if late:
                self.report("wait for rows that are behind", 0)
                self.demand()
                self.pause(_BETWEEN)
                waited += _BETWEEN

    def _read_again(self, home: str, version: int) -> _Outcome:
        """Compare a home's row once more, which has to show its events up to a version at least."""
        place = self._place(home, self.homes.read_tail(home, 0))
        row = self.slot.find(place) if place else None
        # The events after the row: it cannot have seen more of them.
        events = self.homes.read_tail(home, 0)
        if row is None:
            return _Outcome("it has no row")
        if not self._is_whole([event for event in events if event.version <= version], row.seen):
            return _Outcome(f"its row has seen version {row.seen} of {version}")
        expected = self._expect(home, events, row.seen)
        if expected is None or _digest(expected) != _digest(row):
            differing = _differing(expected.view if expected else None, row.view)
            # Where the order does not matter, an event may still be on its way to a row that has seen later ones.
            return _Outcome(f"its row differs from its events{differing}", is_final=self.projection.is_ordered)
        return _Outcome(digest=_digest(row), is_final=True)

    def _expect(self, home: str, events: Sequence[Event], seen: int) -> StoredView | None:
        """Return the row that the log makes of the events up to a version, or None."""
        place, view = self._place(home, events), fold_all(self.projection, events, seen).view
        if place is None or view is None:
            return None
        return StoredView(place=place, home=home, seen=seen, view=view)

    def _place(self, home: str, events: Sequence[Event]) -> ViewPlace | None:
        key = self.projection.key(home, events)
        return key and ViewPlace.of(self.model.name, self.projection.version, key)

    def _is_whole(self, events: Sequence[Event], seen: int) -> bool:
        """Check whether the events above a version change nothing more: private ones travel in no message."""
        return not any(event.is_public and event.version > seen for event in events)

    def _compare_versions(self, home: str, events: Sequence[Event], found: Verification) -> None:
        """Compare the fields that both versions of the model have. Both are folded here, so this costs no request."""
        new, old = fold_all(self.projection, events).view, fold_all(self.former, events).view
        both = set(new or ()) & set(old or ())
        if new is not None and old is not None and (names := sorted(name for name in both if new[name] != old[name])):
            found.differ(
                f"{home}: versions {self.former.version} and {self.projection.version} differ in {', '.join(names)}"
            )


def _digest(row: StoredView) -> int:
    text = f"{row.place.partition}\n{row.place.key}\n{row.home}\n{row.seen}\n{canonical(row.view)}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def _differing(expected: View | None, found: View | None) -> str:
    one, other = expected or {}, found or {}
    names = sorted(
        name for name in {*one, *other} if canonical({"": one.get(name)}) != canonical({"": other.get(name)})
    )
    return f" in {', '.join(names)}" if names else " in its key"
