"""A process manager as a pure function: it decides on a message, and makes no request by itself.

The runtime loads the home, calls `restore` and `decide`, and stores events, state, commands and timeouts in one write.
Then it sends the commands. So a process needs no idea of storage, of queues, or of a crash.

One message to the process of one home, and what became of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from typing import Any, Generic, Protocol, TypeVar

from shared.errors import NotPublishedError, SluiceError
from shared.processes.bodies import Command
from shared.processes.homes import Event, Fields, Home, OutsideIds

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


class Belief(Enum):
    """What a caller says of a home that it does not hold in its hands."""

    #: It is not known: it is loaded.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One message to the process of one home."""

    home: str
    message: Incoming
    #: The home as the caller believes it is; None: there is none. A wrong belief costs a second try, and no more.
    believed: Home | Belief | None = Belief.UNKNOWN
    #: Of the head, if this message makes the home.
    fields: Fields = field(default_factory=dict)
    #: The number that leads to the home, if this message makes it.
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome(Generic[State]):
    """What became of one case."""

    case: Case
    #: The process after it. None: nothing was decided.
    state: State | None = None
    #: The home as it was found, before this message. None: there was none.
    home: Home | None = None
    #: How a reply was taken. None: it was no reply.
    reply: ReplyClass | None = None
    #: Whether it changed the home.
    is_written: bool = False
    error: SluiceError | None = None


@dataclass(frozen=True, slots=True)
class Handled(Generic[State]):
    """What became of several cases, in their order."""

    outcomes: Sequence[CaseOutcome[State]]
    #: All is stored, but the bus may not have it. The tick sends it.
    not_sent: NotPublishedError | None = None

    def check(self) -> None:
        """Raise the first error. What came by the bus comes again then."""
        for error in (*(outcome.error for outcome in self.outcomes), self.not_sent):
            if error is not None:
                raise error
