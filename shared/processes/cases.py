"""One message to the process of one home, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from shared.errors import NotPublishedError, SluiceError
from shared.eventsourcing import Fields, Home
from shared.processes.decisions import Incoming, ReplyClass

State = TypeVar("State")


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
