"""Homes: the contract of the event store.

A home is one stream of events with a head, the state of a process, and an inbox. It is one partition of one table, so
that one write changes all of it or nothing. A version is the number of an event, from 1.

Events are inserted and never changed. So the insert of an event whose version exists is refused. This refusal guards
the whole write.

The chain of a home: each event carries the hash of the former one, and the head that of the last one. Pure.

    e|1 former ""   <-- hash of e|1 -- e|2 former   <-- hash of e|2 -- head

So an event that was changed, replaced or removed after it was written differs from what the row after it says. Versions
of Sluice before the chain write no hash. The next event of this version then begins anew, from the former one if the
writer has read it. It is no signature: who may write all rows of a home can make all hashes anew.

Aggregates: states that events build up, and the decisions that are made on them. All of it is pure.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

#: Fields that the owner of a home keeps in its head.
Fields: TypeAlias = Mapping[str, str | int]
#: Content hashes by the ids of outside messages.
OutsideIds: TypeAlias = Mapping[str, str]
#: Events of one commit. With the head and the process or a memento, they fill one transaction of 100 rows.
MOST_EVENTS: Final = 98


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a home."""

    kind: str
    body: Mapping[str, Any]
    at: datetime
    #: The id of the command that caused it.
    command: str = ""
    generation: int = 0
    #: The format of the body. Its owner upgrades earlier ones.
    format: int = 1
    #: False: part of the causal story only. It is stored, counted and folded, but not published.
    is_public: bool = True
    #: The number in the home. The store gives it.
    version: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """The one row of a home that every commit writes."""

    version: int = 0
    #: The last version that was known to be published when this was written. The sender may know better.
    published: int = 0
    nonce: str = ""
    aggregate: str = ""
    #: The format of the home's rows.
    format: int = 1
    #: The hash of the last event. Empty: a version of Sluice before the chain wrote it.
    last: str = ""
    fields: Fields = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Home:
    """A home as one query found it. All parts are of one version."""

    key: str
    head: Head
    events: tuple[Event, ...] = ()
    process: Mapping[str, Any] | None = None
    inbox: OutsideIds = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sending:
    """What one write had sent, for the story of a home. No decision reads it."""

    #: Of the last event of the write.
    version: int
    at: datetime
    #: The last version that was known to be published then.
    published: int
    #: What identifies each command of the write.
    commands: tuple[Fields, ...] = ()


@dataclass(frozen=True, slots=True)
class Memento:
    """The packed state of an aggregate at a version."""

    version: int
    #: The format of the packed state. A memento of another format is ignored, and the events are read instead.
    format: int
    packed: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One write of a home: all of it or nothing."""

    home: str
    aggregate: str
    #: The version that the decision was made on. 0: the home must be new.
    expected: int
    #: At least one and at most MOST_EVENTS. Their versions follow on `expected`.
    events: tuple[Event, ...]
    #: `last` of the head that the decision was made on.
    former: str = ""
    #: The last version that the sender knows to be published.
    published: int = 0
    #: Replaces the fields of the head. None: they stay.
    fields: Fields | None = None
    #: Replaces the process. None: it stays.
    process: Mapping[str, Any] | None = None
    #: What identifies each command that the process now has sent. The story keeps it when the process no longer does.
    commands: tuple[Fields, ...] = ()
    #: Ids that must be new in this home, with the hash of their content.
    inbox: OutsideIds = field(default_factory=dict)
    memento: Memento | None = None


class Heads(NamedTuple):
    """A page of heads by key, in the order of the keys."""

    heads: tuple[tuple[str, Head], ...]
    #: Leads to the next page, also tomorrow. None: this was the last one.
    cursor: str | None


class Homes(Protocol):
    """The event store. Every method raises StorageUnavailableError if storage gives no usable answer."""

    def load(self, key: str, after: int = 0) -> Home | None:
        """Return the home with its events above `after`, or None. One query for each thousand rows."""
        ...

    def read_tail(self, key: str, after: int) -> list[Event]:
        """Return the events above a version, in order. One query for each thousand."""
        ...

    def read_head(self, key: str) -> Head | None:
        """Return the head, or None. One request."""
        ...

    def read_memento(self, key: str) -> Memento | None:
        """Return the stored memento, or None. One request, and another one if the memento is large."""
        ...

    def find_noted(self, key: str, id_: str) -> str | None:
        """Return the content of an outside id in the home's inbox, or None. One request."""
        ...

    def commit(self, commit: Commit) -> Head:
        """Write everything in one transaction, and return the new head, whose fields are those of the commit.

        Raises ConflictError if the version is not the expected one, DuplicateError if an id of the inbox is there
        already, and CommitTooLargeError. Nothing was written then. After StorageUnavailableError, it may have been
        written: read the home before the next decision.
        """
        ...

    def heads(self, prefix: str, cursor: str = "") -> Heads:
        """Return a page of the heads of all homes whose key begins with `prefix`, after `cursor`."""
        ...


#: The column of an event with the hash of the former one. Empty: the writer did not know it. Earlier versions lack it.
FORMER: Final = "former"
#: The column of the head: the version of the last event that was written with a hash, and its own.
CHAIN: Final = "chain"
_dumps: Final = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


@dataclass(frozen=True, slots=True)
class Proof:
    """What the chain of a home says about its events, by their versions."""

    #: These are not as they were written, or are gone.
    changed: tuple[int, ...]
    #: The first and the last of each range whose content no hash proves.
    unproven: tuple[tuple[int, int], ...]


def hash_row(row: Mapping[str, Any]) -> str:
    """Return the hash of an event's row, with all its columns."""
    return sha256(_dumps(dict(row)).encode()).hexdigest()


def write_anchor(version: int, hash_: str) -> str:
    """Return the column of the head."""
    return f"{version}:{hash_}"


def read_anchor(head: Mapping[str, Any]) -> tuple[int, str]:
    """Return the version and the hash in a head, or 0 and nothing."""
    version, _, hash_ = str(head.get(CHAIN, "")).partition(":")
    return (int(version), hash_) if version.isdecimal() else (0, "")


def prove(rows: Sequence[Mapping[str, Any]], head: Mapping[str, Any]) -> Proof:
    """Compare each event with the hash in the row after it. `rows` are all events of a home, in their order."""
    anchored, anchor = read_anchor(head)
    # A head that a version before the chain wrote keeps the hash of an earlier event, which proves that one.
    said = [anchor if number == anchored else None for number in range(1, len(rows) + 1)]
    for number, following in enumerate(rows[1:]):
        said[number] = following.get(FORMER) or said[number]
    changed = [number for number, hash_ in enumerate(said, 1) if hash_ and hash_ != hash_row(rows[number - 1])]
    gone = range(len(rows) + 1, anchored + 1)
    return Proof((*changed, *gone), tuple(_ranges([number for number, hash_ in enumerate(said, 1) if not hash_])))


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    # Of neighbours, the difference between number and place is the same.
    runs = (list(run) for _, run in groupby(enumerate(numbers), lambda one: one[1] - one[0]))
    return [(run[0][1], run[-1][1]) for run in runs]


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
