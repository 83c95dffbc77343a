"""Aggregates: states that events build up, and the decisions that are made on them. All of it is pure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

from shared.eventsourcing.homes import Event, OutsideIds

State = TypeVar("State")
Asked = TypeVar("Asked")


class Aggregate(Protocol[State]):
    """How the events of one kind of home make a state."""

    @property
    def name(self) -> str:
        """The name in the head of its homes."""
        ...

    @property
    def format(self) -> int:
        """The format of the packed state. Raise it whenever the state or its packing changes."""
        ...

    def initial(self) -> State:
        """Return a new state, before all events."""
        ...

    def fold(self, state: State, event: Event) -> State:
        """Return the state after the event. It may change the given state, which is not used again."""
        ...

    def pack(self, state: State) -> bytes:
        """Return the state as bytes. They are compressed when they are stored."""
        ...

    def unpack(self, packed: bytes) -> State:
        """Return the state of bytes that `pack` made in this format."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about one command: its events, stored together or not at all. No events: nothing changes."""

    events: tuple[Event, ...] = ()
    #: Ids that must be new, with the hash of their content. Only with events.
    inbox: OutsideIds = field(default_factory=dict)


#: Decides one command on a state. It changes neither.
Decide: TypeAlias = Callable[[State, Asked], Verdict]
