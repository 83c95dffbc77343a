"""Projections: pure functions from the events of a home to one view. A model is a projection in its versions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from shared.errors import MigrationRefusedError
from shared.eventsourcing import Event

#: What a reader is shown of one home: plain values, as JSON has them.
View: TypeAlias = Mapping[str, Any]


class ViewKey(NamedTuple):
    """The place of a home's row in a version. Readers make it from an id or a number, projectors from the events."""

    #: One of 16 partitions. Where it is the shard of the home, a message of events is written in one transaction.
    shard: int
    key: str


class Projection(Protocol):
    """One version of a model. It is pure: the same events give the same view, today and in a migration."""

    @property
    def version(self) -> int:
        """The number of this version. It is part of the keys of its rows."""
        ...

    @property
    def is_ordered(self) -> bool:
        """True if events have to be folded in their order, without a gap.

        False: the view is the same in any order, and an event that comes twice changes nothing.
        """
        ...

    def key(self, home: str, events: Sequence[Event]) -> ViewKey | None:
        """Return the key of a home's row. None: these events do not name it, but all events of the home do."""
        ...

    def fold(self, view: View | None, event: Event) -> View | None:
        """Return the view after the event. It may raise LaterFormatError: the message then waits for a newer program."""
        ...


@dataclass(frozen=True, slots=True)
class Model:
    """A read model: its name, the homes that it shows, and the versions that this program knows."""

    name: str
    #: The keys of its homes begin so.
    homes: str
    #: In rising order. A new installation begins with the first one.
    versions: tuple[Projection, ...]

    def projection(self, version: int) -> Projection:
        """Return a version's projection, or raise MigrationRefusedError if this program has none."""
        for one in self.versions:
            if one.version == version:
                return one
        known = ", ".join(str(one.version) for one in self.versions)
        raise MigrationRefusedError(
            f"could not use version {version} of the read model {self.name!r}: this program knows {known}; "
            "deploy the program that has it, or name a known one"
        )
