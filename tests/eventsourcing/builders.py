"""Events and commits of tests."""

from datetime import UTC, datetime

from shared.processes import Commit, Event

NOON = datetime(2026, 11, 22, 12, 0, 0, 7, tzinfo=UTC)


def event(number=1, **changes):
    """Return an event that happened."""
    return Event(**{"kind": "counted", "body": {"n": number}, "at": NOON, "command": f"c{number}"} | changes)


def commit(key="order-7", expected=0, events=1, **changes):
    """Return a commit of some events after a version."""
    made = tuple(event(expected + n + 1) for n in range(events)) if isinstance(events, int) else tuple(events)
    return Commit(**{"home": key, "aggregate": "order", "expected": expected, "events": made} | changes)
