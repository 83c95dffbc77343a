"""The event store: homes, their events, and warm states. It knows no messages and no domain.

Reading order: `homes` (the contract), `aggregate` (states and decisions, pure), `chain`, `home_rows`, `memento_store` and
`table_homes` (the store), `mementos` (warm states), `writer` (many commands of one home).
"""

from shared.eventsourcing.aggregate import Aggregate, Decide, Verdict
from shared.eventsourcing.chain import Proof
from shared.eventsourcing.homes import (
    MOST_EVENTS,
    Commit,
    Event,
    Fields,
    Head,
    Heads,
    Home,
    Homes,
    Memento,
    OutsideIds,
    Sending,
)
from shared.eventsourcing.memento_store import MementoStore
from shared.eventsourcing.mementos import Mementos
from shared.eventsourcing.table_homes import TableHomes
from shared.eventsourcing.writer import Saved, SavedCommand, Writer

__all__ = [
    "MOST_EVENTS",
    "Aggregate",
    "Commit",
    "Decide",
    "Event",
    "Fields",
    "Head",
    "Heads",
    "Home",
    "Homes",
    "Memento",
    "MementoStore",
    "Mementos",
    "OutsideIds",
    "Proof",
    "Saved",
    "SavedCommand",
    "Sending",
    "TableHomes",
    "Verdict",
    "Writer",
]
