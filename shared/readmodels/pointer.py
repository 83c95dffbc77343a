"""The pointer: the one row of a model that leads readers and projectors, and is the state of its migration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from shared.parts import SLOTS

#: A projector uses a pointer for this long, and reads it again if it is older after its writes.
PROJECTORS_KEEP: Final = timedelta(seconds=5)
#: A reader uses a pointer for this long.
READERS_KEEP: Final = timedelta(seconds=2)
#: The wait after a change of the versions that projectors write, so that all of them know it: twice PROJECTORS_KEEP.
SETTLING: Final = timedelta(seconds=10)


class Slot(StrEnum):
    """One of the two tables of views. The current version of a model has one of them, a new version the other one."""

    A, B = SLOTS

    @property
    def other(self) -> "Slot":
        """The other one."""
        return Slot.B if self is Slot.A else Slot.A


class Phase(StrEnum):
    """How far a migration is."""

    NONE = "none"
    #: Live events go to both versions. Projectors are given time to know it.
    DOUBLING = "doubling"
    #: The homes' events are folded into the new version.
    BUILDING = "building"
    BUILT = "built"
    VERIFIED = "verified"
    #: Readers use the new version. Live events still go to both.
    SWITCHED = "switched"
    #: Readers use the old version again. Live events still go to both.
    ROLLED_BACK = "rolled back"
    #: Live events go to the current version only. The other slot is emptied.
    FINISHING = "finishing"
    DONE = "done"


#: Phases that a command ends by itself. In the others, a migration waits for its operator.
AT_WORK: Final = (Phase.DOUBLING, Phase.BUILDING, Phase.FINISHING)
#: A build notes each page of heads: some minutes at most.
STANDS_AFTER: Final = timedelta(minutes=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPointer:
    """The row of a model in the table `models`."""

    model: str
    #: The version that readers use, and its slot.
    current: int
    slot: Slot = Slot.A
    #: The version that live events go to as well, in the other slot: the new one, and after the switch the old one.
    doubled: int | None = None
    phase: Phase = Phase.NONE
    #: The version that the migration leads to.
    target: int | None = None
    #: Whether the target was compared with the homes. Only then it may become the current one.
    is_verified: bool = False
    #: Where the page of heads begins that comes next.
    cursor: str = ""
    #: Counts and checksums of the phases, for a person.
    figures: Mapping[str, int | str] = field(default_factory=lambda: MappingProxyType({}))
    #: When it was written last. None: never.
    changed_at: datetime | None = None
    nonce: str = ""
    #: Of the row as it was read. Empty: there is no row yet.
    etag: str = ""

    @property
    def places(self) -> tuple[tuple[int, Slot], ...]:
        """The versions that a projector writes, each with its slot, in the order of the writes.

        The current one comes last. So the other version is never behind the rows that readers have seen, and neither a
        switch nor a rollback shows them an older row.
        """
        beside = () if self.doubled is None else ((self.doubled, self.slot.other),)
        return (*beside, (self.current, self.slot))

    def stands(self, now: datetime) -> timedelta | None:
        """Return for how long a migration at work has made no progress, if that is too long. Else None."""
        if self.phase not in AT_WORK or self.changed_at is None or now - self.changed_at < STANDS_AFTER:
            return None
        return now - self.changed_at

    def slot_of(self, version: int) -> Slot:
        """Return the slot of one of the versions that are written."""
        return self.slot if version == self.current else self.slot.other
