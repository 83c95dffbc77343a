"""Projections: pure functions from the events of a home to one view. A model is a projection in its versions.

A range of events is folded without the events that the view has seen, and a gap is noticed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from shared.errors import MigrationRefusedError
from shared.processes import Event, EventRange

#: What a reader is shown of one home: plain values, as JSON has them.
View: TypeAlias = Mapping[str, Any]


class ViewKey(NamedTuple):
    """The place of a home's row in a version. Readers make it from an id or a number, projectors from the events."""

    #: One of 16 partitions. Where it is the shard of the home, a message of events is written in one transaction.
    shard: int
    key: str


class Projection(Protocol):
    """One version of a model. It is pure: the same events give the same view, today and in a migration."""

    @property
    def version(self) -> int:
        """The number of this version. It is part of the keys of its rows."""
        ...

    @property
    def is_ordered(self) -> bool:
        """True if events have to be folded in their order, without a gap.

        False: the view is the same in any order, and an event that comes twice changes nothing.
        """
        ...

    def key(self, home: str, events: Sequence[Event]) -> ViewKey | None:
        """Return the key of a home's row. None: these events do not name it, but all events of the home do."""
        ...

    def fold(self, view: View | None, event: Event) -> View | None:
        """Return the view after the event. It may raise LaterFormatError: the message then waits for a newer program."""
        ...


@dataclass(frozen=True, slots=True)
class Model:
    """A read model: its name, the homes that it shows, and the versions that this program knows."""

    name: str
    #: The keys of its homes begin so.
    homes: str
    #: In rising order. A new installation begins with the first one.
    versions: tuple[Projection, ...]

    def projection(self, version: int) -> Projection:
        """Return a version's projection, or raise MigrationRefusedError if this program has none."""
        for one in self.versions:
            if one.version == version:
                return one
        known = ", ".join(str(one.version) for one in self.versions)
        raise MigrationRefusedError(
            f"could not use version {version} of the read model {self.name!r}: this program knows {known}; "
            "deploy the program that has it, or name a known one"
        )


class Folded(NamedTuple):
    """A view after some ranges."""

    seen: int
    view: View | None
    #: Events between `seen` and the next range are missing. That range and those after it are not folded.
    is_gap: bool = False


NOTHING = Folded(0, None)


def fold(projection: Projection, before: Folded, ranges: Iterable[EventRange]) -> Folded:
    """Fold the ranges into a view, in the order of their versions, not in the given order.

    A range may overlap the one before, since a sender that is not sure sends again and groups otherwise. So the end of
    a range decides whether it is dropped, and of the rest the version of each event.
    """
    seen, view = before.seen, before.view
    for one in sorted(ranges, key=lambda one: (one.first, one.last)):
        if projection.is_ordered and one.first > seen + 1:
            return Folded(seen, view, is_gap=True)
        for event in one.events:
            # A private event is part of the log, and of no message: the view is the same whichever way it came.
            if event.is_public and (event.version > seen or not projection.is_ordered):
                view = projection.fold(view, event)
        seen = max(seen, one.last)
    return Folded(seen, view)


def fold_all(projection: Projection, events: Sequence[Event], until: int | None = None) -> Folded:
    """Fold a home's events from the first one up to a version. None: all of them."""
    some = tuple(event for event in events if until is None or event.version <= until)
    return fold(projection, NOTHING, [EventRange("", 1, some[-1].version, some)] if some else [])


def tail(home: str, after: int, events: Sequence[Event]) -> EventRange:
    """Return the events of a home above a version, as the log has them, as one range."""
    return EventRange(home, after + 1, events[-1].version if events else after, tuple(events))
