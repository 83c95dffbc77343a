"""Folding ranges of events into a view: what was seen before is left out, and a gap is noticed. All of it is pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shared.eventsourcing import Event
from shared.messaging import EventRange
from shared.readmodels.projection import Projection, View


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
