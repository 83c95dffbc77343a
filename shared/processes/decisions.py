"""A process manager as a pure function: it decides on a message, and makes no request by itself.

The runtime loads the home, calls `restore` and `decide`, and stores events, state, commands and timeouts in one write.
Then it sends the commands. So a process needs no idea of storage, of queues, or of a crash.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from shared.eventsourcing import Event, Home, OutsideIds
from shared.messaging import Command

S = TypeVar("S")
State = TypeVar("State")


class ReplyClass(StrEnum):
    """How a reply, a timeout or a repeated message relates to the state of its process."""

    #: It answers the last command, and is applied.
    CURRENT = "current"
    #: It answers an earlier command: counted and skipped.
    STALE = "stale"
    #: It was applied before: counted, and the home sends what it has unsent.
    DUPLICATE = "duplicate"
    #: It answers a command that was never sent: parked with the state, which stays.
    UNEXPECTED = "unexpected"


@dataclass(frozen=True, slots=True)
class Timeout:
    """A message that the process gets at `due`, if it does not end before."""

    name: str
    due: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """One message to a process: of the outside, an event of another home, or a timeout that is due."""

    kind: str
    body: Mapping[str, Any]
    #: When it happened: the event's own time, the due time of a timeout, the time of arrival of an outside message.
    at: datetime
    #: The id that its sender gave: of an outside message, or of the command that an event answers.
    id: str = ""
    #: The generation of the command that it answers.
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessDecision(Generic[S]):
    """All that follows from one message. Without events of its own, nothing is written."""

    state: S
    #: To other homes. The runtime gives them their ids.
    commands: tuple[Command, ...] = ()
    timeouts: tuple[Timeout, ...] = ()
    #: Events of the home itself. Those that are not public are the causal story.
    own: tuple[Event, ...] = ()
    #: Timeouts that no longer matter: their rows may go.
    dropped: tuple[Timeout, ...] = ()
    #: Ids that must be new in this home, with the hash of their content.
    inbox: OutsideIds = field(default_factory=dict)
    #: None: the message is no reply.
    reply: ReplyClass | None = None


class Process(Protocol[State]):
    """One kind of process manager. All of it is pure."""

    @property
    def format(self) -> int:
        """The format of the row of its state. Raise it whenever `store` changes."""
        ...

    def upgrade(self, row: Mapping[str, Any], format_: int) -> Mapping[str, Any]:
        """Return a row of an earlier format as one of this format."""
        ...

    def restore(self, row: Mapping[str, Any] | None, home: Home | None) -> State:
        """Return the state from its row, in this format, and from the events and the inbox of its home."""
        ...

    def store(self, state: State) -> Mapping[str, Any]:
        """Return the row of the state: what the events do not say."""
        ...

    def decide(self, state: State, message: Incoming, now: datetime) -> ProcessDecision[State]:
        """Decide. Raises RefusedError for a message of the outside that this state does not allow."""
        ...
