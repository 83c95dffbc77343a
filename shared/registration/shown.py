"""Says whether the current views of homes show some events."""

from typing import NamedTuple

from shared.eventsourcing import Homes
from shared.messaging import EventRange
from shared.readmodels import Model, ViewKey, ViewReader


class ShownModel(NamedTuple):
    """A read model with its reader."""

    model: Model
    reader: ViewReader


def is_shown(homes: Homes, shown: ShownModel, events: EventRange) -> bool:
    """Return true if the view of their home shows these events, or if they are of no home of the model."""
    if not events.home.startswith(shown.model.homes):
        return True
    current = 0

    def key_of(version: int) -> ViewKey | None:
        nonlocal current
        current = version
        projection = shown.model.projection(version)
        # The key may depend on the first event of a home that is short.
        return projection.key(events.home, homes.read_tail(events.home, 0) if projection.is_ordered else events.events)

    row = shown.reader.find(key_of)
    projection = shown.model.projection(current)
    if row is None or projection.is_ordered:
        return row is not None and row.seen >= events.last
    return all(projection.fold(row.view, event) == row.view for event in events.events)
