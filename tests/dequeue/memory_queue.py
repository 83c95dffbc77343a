"""A work queue in memory, which keeps the contract that the one in storage keeps; and a clock that a test moves."""

import itertools
import threading
from datetime import UTC, datetime, timedelta

from shared.errors import StorageUnavailableError
from shared.messages import Delivery

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class ManualClock:
    """A clock that a test moves; its pause moves it too."""

    def __init__(self):
        self.seconds = 0.0

    def now(self):
        """Return noon and what was moved since."""
        return NOON + timedelta(seconds=self.seconds)

    def monotonic(self):
        """Return what was moved."""
        return self.seconds

    def advance(self, seconds):
        """Move it."""
        self.seconds += seconds


class MemoryQueue:
    """Messages with their visibility, delivery counts and receipts."""

    def __init__(self, clock, name="work-00", visibility=30):
        self.name, self._clock, self._visibility = name, clock, visibility
        self._messages, self._lock = {}, threading.Lock()
        self._numbers = itertools.count(1)
        #: The size of each receive and what came of it; -1 for the depth.
        self.requests = []
        self.renewals = 0
        self.fails = False

    def put(self, *bodies):
        """Put messages."""
        with self._lock:
            for body in bodies:
                number = next(self._numbers)
                self._messages[str(number)] = [body, -1.0, 0, ""]

    def receive(self, most):
        """Return what can be seen, hidden for a while."""
        with self._lock:
            if self.fails:
                raise StorageUnavailableError("injected")
            now = self._clock.monotonic()
            seen = [name for name, message in self._messages.items() if message[1] <= now][:most]
            for name in seen:
                message = self._messages[name]
                message[1:] = [now + self._visibility, message[2] + 1, f"r{next(self._numbers)}"]
            self.requests.append((most, len(seen)))
            return [MemoryHeld(self, name, list(self._messages[name]), now) for name in seen]

    def depth(self):
        """Return how many there are."""
        with self._lock:
            self.requests.append(("depth", len(self._messages)))
            return len(self._messages)

    def peek(self):
        """Return how many can be seen."""
        with self._lock:
            return min(32, sum(message[1] <= self._clock.monotonic() for message in self._messages.values()))

    @property
    def receives(self):
        """How many messages each receive found."""
        return [found for asked, found in self.requests if asked != "depth"]

    def change(self, name, receipt, hidden_for):
        """Change a message that is still held by this receipt; returns the new receipt, None when it is not."""
        with self._lock:
            message = self._messages.get(name)
            if message is None or message[3] != receipt:
                return None
            if hidden_for is None:
                del self._messages[name]
                return ""
            message[1], message[3] = self._clock.monotonic() + hidden_for, f"r{next(self._numbers)}"
            return message[3]


class MemoryHeld:
    """A message of the queue in memory, held."""

    def __init__(self, queue, name, message, now):
        self._queue, self._name, self._receipt = queue, name, message[3]
        self._until, self.due = now + queue._visibility, now + queue._visibility / 2
        self._is_settled = False
        self.delivery = Delivery(queue=queue.name, message_id=name, body=message[0], count=message[2])

    @property
    def is_lost(self):
        """Whether somebody else may have it."""
        return self._queue._clock.monotonic() >= self._until

    def renew(self):
        """Hide it anew."""
        if self._is_settled:
            return
        now = self._queue._clock.monotonic()
        receipt = self._queue.change(self._name, self._receipt, self._queue._visibility)
        if receipt is None:
            self._until, self.due = now, float("inf")
            return
        self._queue.renewals += 1
        self._receipt = receipt
        self._until, self.due = now + self._queue._visibility, now + self._queue._visibility / 2

    def delete(self):
        """Be done with it."""
        self._is_settled = True
        self._queue.change(self._name, self._receipt, None)

    def show_in(self, seconds):
        """Let others have it."""
        self._is_settled = True
        self._queue.change(self._name, self._receipt, seconds)
