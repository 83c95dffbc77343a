"""A message at rest, and the rules by which its queue hands it out."""

from dataclasses import dataclass
from math import inf

from servicebus_local.parcel import Label, Parcel

#: What the annotation x-opt-message-state says.
ACTIVE, DEFERRED, SCHEDULED = range(3)


@dataclass(frozen=True, slots=True)
class Policy:
    """How a queue hands messages out. Times in seconds."""

    lock: float
    max_delivery_count: int
    sessions: bool = False
    dead_letter_expired: bool = False
    time_to_live: float = inf


@dataclass(slots=True, eq=False)
class Record:
    """A message at rest."""

    sequence: int
    #: Its number in the topic; None for a message of a queue.
    origin: int | None
    parcel: Parcel
    enqueued: float
    lane: str
    time_to_live: float = inf
    failures: int = 0
    token: str | None = None
    locked_until: float = 0.0
    #: Set aside by a receiver: only who knows its sequence number gets it.
    deferred: bool = False

    @property
    def expires(self) -> float:
        """When the message's life ends."""
        return self.enqueued + self.time_to_live

    def label(self, locked_until: float | None) -> Label:
        """Return the annotations of the message for its receiver."""
        life = None if self.time_to_live == inf else self.time_to_live
        state = DEFERRED if self.deferred else ACTIVE
        token = None if locked_until is None else self.token
        return Label(self.sequence, self.origin, self.enqueued, self.failures, locked_until, life, state, token)
