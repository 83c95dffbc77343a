"""The stage around a settler: what it sends, points to and parks, kept for a test to look at."""

from dataclasses import replace
from datetime import timedelta
from itertools import count

from shared.messages import encode
from shared.parked.parking import Parking, Stages
from shared.pipeline.dispatch import FinishCall
from shared.pipeline.halts import Halts
from shared.pipeline.settle import Received, Settler
from tests.ledger.builders import NOON


class ManualClock:
    """A clock that a test moves; waiting moves it."""

    def __init__(self):
        self.seconds = 0.0
        self.pauses = 0

    def now(self):
        """Return the time of day."""
        return NOON + timedelta(seconds=self.seconds)

    def monotonic(self):
        """Return the seconds that passed."""
        return self.seconds

    def pause(self, seconds):
        """Wait, without waiting."""
        self.pauses += 1
        # Even a wait of nothing takes time, or an outage without waits would never be over.
        self.seconds += max(seconds, 0.001)


class MemoryPending:
    """The index of what needs somebody."""

    def __init__(self):
        self.rows = {}
        self._etags = count(1)

    def add(self, pointer):
        """Write a pointer, also over an equal one."""
        written = replace(pointer, etag=str(next(self._etags)))
        self.rows[pointer.kind, pointer.row_key] = written
        return written

    def remove(self, pointer):
        """Remove a pointer that nobody wrote again."""
        if self.rows.get((pointer.kind, pointer.row_key)) == pointer:
            del self.rows[pointer.kind, pointer.row_key]

    def of(self, kind):
        """Return the ids of the rows of a kind."""
        return sorted(pointer.id for pointer in self.rows.values() if pointer.kind == kind)


class MemoryParked:
    """Parked messages by key, each once."""

    def __init__(self):
        self.entries = {}

    def park(self, entry, body):
        """Keep a message."""
        self.entries[entry.job, entry.key] = entry, body
        return entry

    def reasons(self):
        """Return the reasons of what is parked."""
        return sorted(entry.reason for entry, _ in self.entries.values())


class MemoryGroups:
    """Blobs of results by name, each written once."""

    def __init__(self):
        self.blobs = {}

    def put(self, blob):
        """Keep a blob."""
        self.blobs.setdefault(blob.name, blob.content)


class MemoryHalts:
    """The halt rows of a fleet, by job."""

    def __init__(self):
        self.halts = {}

    def read(self):
        """Return the fleet's rows."""
        return self

    def halt(self, job, halts):
        """Write a row."""
        self.halts[job] = halts

    def lift(self, job):
        """Remove a row."""
        self.halts.pop(job, None)


class Stage:
    """A settler with everything around it in memory but the ledger that it is given."""

    def __init__(self, ledger, **options):
        self.ledger, self.clock = ledger, ManualClock()
        self.pending, self.parked, self.sent = MemoryPending(), MemoryParked(), []
        self.parking, self.groups = Parking(self.parked, self.clock, Stages()), MemoryGroups()
        call = FinishCall(lambda queue, message: self.sent.append((queue, message)), self.pending, self.clock)
        #: Messages that were put off.
        self.later = []
        self.fleet = MemoryHalts()
        halts = Halts(ledger=ledger, fleet=self.fleet, pending=self.pending, clock=self.clock)
        given = {"send_later": self.later.extend, "halts": halts, "pause": self.clock.pause, **options}
        self.settler = Settler(ledger, call, self.parking, self.groups, self.clock, **given)

    def settle(self, *results, deliveries=1):
        """Deliver these results as one batch."""
        return self.settler.settle([delivered(result, deliveries) for result in results])


def delivered(result, deliveries=1):
    """Return a result as the bus delivers it."""
    body = result if isinstance(result, bytes) else encode(result)
    return Received(body, "message-1", deliveries)
