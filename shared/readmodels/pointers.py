"""The pointer of a model: the one row that leads readers and projectors, and is the state of its migration.

It is changed by conditional writes, and kept by its readers for seconds.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import LOST_RACE, error_code, expecting_an_answer
from shared.clock import Clock
from shared.errors import ViewCorruptError
from shared.readmodels.projection import Model
from shared.topology import SLOTS

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


_PARTITION: Final = "model"


def _new_nonce() -> str:
    return uuid.uuid4().hex


class Pointers:
    """The pointers of an installation."""

    def __init__(self, table: TableClient, clock: Clock, new_nonce: Callable[[], str] = _new_nonce) -> None:
        self._table, self._clock, self._new_nonce = table, clock, new_nonce

    def read(self, model: Model) -> ModelPointer:
        """Return the model's pointer. Without a row, the first version is the current one."""
        with expecting_an_answer(f"read the pointer of the read model {model.name!r}"):
            try:
                row = self._table.get_entity(_PARTITION, model.name)
            except ResourceNotFoundError:
                return ModelPointer(model=model.name, current=model.versions[0].version)
        return _pointer_of(row, str(row.metadata["etag"]))

    def try_write(self, pointer: ModelPointer) -> ModelPointer | None:
        """Write the pointer in place of the row that it was made from. None: another writer was first.

        A reply may be lost, and the library repeats a lost write and is then refused by its own first one. So after
        every answer but a yes, the row is read, and its nonce says who wrote it.
        """
        mine = replace(pointer, nonce=self._new_nonce(), changed_at=self._clock.now())
        with expecting_an_answer(f"write the pointer of the read model {mine.model!r}"):
            try:
                if mine.etag:
                    written = self._table.update_entity(
                        _entity(mine),
                        mode=UpdateMode.REPLACE,
                        etag=mine.etag,
                        match_condition=MatchConditions.IfNotModified,
                    )
                else:
                    written = self._table.create_entity(_entity(mine))
            except AzureError as error:
                found = self._find(mine.model)
                if found is not None and found.nonce == mine.nonce:
                    return found
                if error_code(error) in LOST_RACE:
                    return None
                raise
        return replace(mine, etag=str(written["etag"]))

    def _find(self, model: str) -> ModelPointer | None:
        try:
            row = self._table.get_entity(_PARTITION, model)
        except ResourceNotFoundError:
            return None
        return _pointer_of(row, str(row.metadata["etag"]))


class KeptPointer:
    """One model's pointer, kept for a bounded time. Several threads may use it."""

    def __init__(self, pointers: Pointers, model: Model, keep: timedelta, clock: Clock) -> None:
        self._pointers, self._clock = pointers, clock
        self.model, self._keep = model, keep.total_seconds()
        #: The pointer, and a moment at which the row was certainly not older: before the request for it.
        self._kept: tuple[ModelPointer, float] | None = None

    def get(self) -> ModelPointer:
        """Return the pointer, at most as old as it may be."""
        kept = self._kept
        return kept[0] if kept and self._is_young(kept) else self.refresh()

    def refresh(self) -> ModelPointer:
        """Read the row and return it."""
        asked = self._clock.monotonic()
        pointer = self._pointers.read(self.model)
        self._kept = (pointer, asked)
        return pointer

    def is_young(self) -> bool:
        """Check whether the pointer that was returned last may still be used."""
        return self._kept is not None and self._is_young(self._kept)

    def _is_young(self, kept: tuple[ModelPointer, float]) -> bool:
        return self._clock.monotonic() - kept[1] <= self._keep


def _entity(pointer: ModelPointer) -> dict[str, Any]:
    row: dict[str, Any] = {
        "PartitionKey": _PARTITION,
        "RowKey": pointer.model,
        "current": pointer.current,
        "slot": str(pointer.slot),
        "phase": str(pointer.phase),
        "is_verified": pointer.is_verified,
        "cursor": pointer.cursor,
        "figures": json.dumps(dict(pointer.figures)),
        "nonce": pointer.nonce,
    }
    given = {"doubled": pointer.doubled, "target": pointer.target, "changed_at": pointer.changed_at}
    return row | {name: value for name, value in given.items() if value is not None}


def _pointer_of(row: Any, etag: str) -> ModelPointer:
    try:
        return ModelPointer(
            model=row["RowKey"],
            current=int(row["current"]),
            slot=Slot(row["slot"]),
            doubled=_number(row.get("doubled")),
            phase=Phase(row["phase"]),
            target=_number(row.get("target")),
            is_verified=bool(row["is_verified"]),
            cursor=row["cursor"],
            figures=json.loads(row["figures"]),
            changed_at=row.get("changed_at"),
            nonce=row["nonce"],
            etag=etag,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise ViewCorruptError(
            f"could not read the pointer of the read model {row.get('RowKey')!r} in the table `models`: {error!r}; "
            "another program changed it, restore its columns"
        ) from error


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
