"""A model for tests: homes that count, shown by their names, and in a second version by a number with one more field."""

from shared.processes import Event, EventRange
from shared.readmodels import Model, ViewKey
from tests.gate.conftest import NOON


def event_of(amount, *, is_public=True):
    """Return an event that adds to a counter."""
    return Event(kind="added", body={"amount": amount}, at=NOON, is_public=is_public)


def ranges_of(home, events):
    """Return events as their message brings them."""
    return EventRange(home, events[0].version, events[-1].version, tuple(one for one in events if one.is_public))


class Counted:
    """The events in their order, and their sum."""

    version = 1
    is_ordered = True

    def key(self, home, events):
        """Return the name."""
        return ViewKey(len(home) % 16, home.removeprefix("counter-"))

    def fold(self, view, event):
        """Add, and remember the order."""
        view = view or {"sum": 0, "amounts": []}
        amount = event.body["amount"]
        return {"sum": view["sum"] + amount, "amounts": [*view["amounts"], amount]}


class CountedTwice(Counted):
    """The same by the first amount, with the largest one beside."""

    version = 2

    def key(self, home, events):
        """Return the first amount and the name, if the first event is there."""
        first = [one for one in events if one.version == 1]
        return ViewKey(first[0].body["amount"] % 16, f"{first[0].body['amount']:012}{home[-3:]}") if first else None

    def fold(self, view, event):
        """Add, and keep the largest."""
        return {**super().fold(view, event), "largest": max(event.body["amount"], (view or {}).get("largest", 0))}


class Newest:
    """A model whose events may come in any order: the newest amount wins."""

    version = 1
    is_ordered = False

    def key(self, home, events):
        """Return the name."""
        return ViewKey(0, home)

    def fold(self, view, event):
        """Take the amount of the newest event."""
        return (
            {"amount": event.body["amount"], "at": event.version} if event.version > (view or {}).get("at", 0) else view
        )


COUNTERS = Model("counters", "counter-", (Counted(), CountedTwice()))
NEWEST = Model("newest", "counter-", (Newest(),))
