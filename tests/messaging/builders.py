"""Parcels of commands and events, and a sender that keeps what it is given."""

import json
from datetime import UTC, datetime
from threading import Event as Flag, Lock

from shared.azure import Destination
from shared.processes import Command, Event, EventRange, command_parcel, event_parcels
from tests.waiting import LIMIT

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
TOPIC = Destination("topic", "order-events")
QUEUE = Destination("bus", "seat-commands-00")


def events(home, first, last, *, session="0", topic=TOPIC, kind="noted", size=0):
    """Return the parcels of a range of one stream."""
    body = {"text": "x" * size}
    made = tuple(Event(kind, body, NOON, version=version) for version in range(first, last + 1))
    return list(event_parcels(topic, session, EventRange(home, first, last, made)))


def command(number, to="seats-c1", **fields):
    """Return the parcel of a command."""
    made = Command(**{"kind": "reserve", "to": to, "body": {"order": f"o{number}"}, "id": f"c{number}", **fields})
    return command_parcel(QUEUE, made)


def body_of(message):
    """Return the bytes of a message that was received."""
    return b"".join(message.body)


def ranges(body):
    """Return the ranges in the body of a message by home."""
    return [(one["home"], one["first"], one["last"]) for one in json.loads(body)["sluice"]["streams"]]


class KeptTransfers:
    """A sender that keeps each transfer, can hold them up, and can fail."""

    def __init__(self):
        self.transfers, self.errors, self._lock = [], [], Lock()
        #: The most transfers at the same time, and those now.
        self.most_at_once, self._at_once = 0, 0
        self.open, self.begun = Flag(), Flag()
        self.open.set()

    def send(self, to, messages):
        """Keep the messages, after it was let."""
        with self._lock:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self.begun.set()
        assert self.open.wait(LIMIT)
        with self._lock:
            self._at_once -= 1
            if self.errors:
                raise self.errors.pop(0)
            self.transfers.append((to, list(messages)))
