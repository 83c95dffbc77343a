"""The table `models`: one row per model, changed by conditional writes, and kept by its readers for seconds."""

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import LOST_RACE, error_code, expecting_an_answer
from shared.clock import Clock
from shared.errors import ViewCorruptError
from shared.readmodels.pointer import ModelPointer, Phase, Slot
from shared.readmodels.projection import Model

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
