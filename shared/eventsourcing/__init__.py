"""The event store: homes, their events, and warm states. It knows no messages and no domain.

Reading order: `homes` (the contract), `aggregate` (states and decisions, pure).
"""

from shared.eventsourcing.aggregate import Aggregate, Decide, Verdict
from shared.eventsourcing.homes import MOST_EVENTS, Commit, Event, Fields, Head, Heads, Home, Homes, Inbox, Memento

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
    "Inbox",
    "Memento",
    "Verdict",
]
