"""The record of acts: who, what, when and why. One row before the effect, its result after it."""

import secrets
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from azure.core.exceptions import AzureError, ResourceExistsError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import ActRepeatedError, StorageUnavailableError

#: The result of a command that is still running, or whose process died.
STARTED: Final = "started"
_NAMES: Final = ("who", "what", "target", "why", "result")
_KEYS: Final = frozenset({"PartitionKey", "RowKey"})


@dataclass(slots=True)
class AuditedAct:
    """An act that a person wants. The code that does it fills in `result`."""

    who: str
    what: str
    target: str
    why: str
    details: dict[str, str] = field(default_factory=dict)
    result: str = STARTED


@dataclass(frozen=True, slots=True)
class RecordedAct:
    """A recorded act with its time. A result `started`: it goes on, or its process died."""

    at: datetime
    act: AuditedAct


@dataclass(frozen=True, slots=True)
class ActKey:
    """The name of an act from before it is done: a second attempt under it finds the row of the first."""

    at: datetime
    nonce: str


class AuditTable:
    """The table of acts, one partition per month."""

    def __init__(self, table: TableClient, clock: Clock) -> None:
        self._table, self._clock = table, clock

    @contextmanager
    def record(self, command: AuditedAct, named: ActKey | None = None) -> Iterator[AuditedAct]:
        """Write the row, run the block, then write its result. If the row cannot be written, the block does not run.

        `named`: the act was named before. Raise ActRepeatedError if it was attempted already.
        """
        key = _key(named.at, named.nonce) if named else _key(self._clock.now(), secrets.token_hex(4))
        with expecting_an_answer(f"record {command.what} {command.target!r} before doing it, so nothing was done"):
            if named:
                self._insert(key, command)
            else:
                self._table.upsert_entity({**key, **_columns(command)}, mode=UpdateMode.REPLACE)
        try:
            yield command
        except BaseException as error:
            command.result = f"failed: {type(error).__name__}"
            self._finish(key, command)
            raise
        self._finish(key, command)

    def note(self, done: AuditedAct, named: ActKey) -> None:
        """Write the row of an act with its result, unless it is there: any number of processes may write it."""
        with expecting_an_answer(f"record {done.what} {done.target!r}"), suppress(ResourceExistsError):
            self._table.create_entity({**_key(named.at, named.nonce), **_columns(done)})

    def check_new(self, named: ActKey) -> None:
        """Raise ActRepeatedError if the act was attempted already. One request."""
        with expecting_an_answer("look for an act in the audit"):
            found = self._find(_key(named.at, named.nonce))
        if found is not None:
            raise _refuse_repeated(found)

    def _insert(self, key: dict[str, str], command: AuditedAct) -> None:
        """Insert the row of a named act. After a lost reply, the attempt in it tells whether this call wrote it."""
        command.details["attempt"] = secrets.token_hex(8)
        try:
            self._table.create_entity({**key, **_columns(command)})
        except AzureError as refusal:
            found = self._find(key)
            if found is None:
                raise
            if found.details.get("attempt") != command.details["attempt"]:
                raise _refuse_repeated(found) from refusal

    def _find(self, key: dict[str, str]) -> AuditedAct | None:
        try:
            return _act_of(self._table.get_entity(key["PartitionKey"], key["RowKey"])).act
        except ResourceNotFoundError:
            return None

    def newest(self, month: str, most: int, *, who: str = "", about: str = "") -> list[RecordedAct]:
        """Return the last acts of a month, such as 2026-11, the newest first. One request for a thousand acts."""
        with expecting_an_answer(f"read the audit of {month}"):
            rows = self._table.query_entities("PartitionKey eq @month", parameters={"month": month})
            found = deque((row for row in rows if _is_wanted(row, who, about)), maxlen=most)
        return [_act_of(row) for row in reversed(found)]

    def _finish(self, key: dict[str, str], command: AuditedAct) -> None:
        try:
            with expecting_an_answer(f"record the result of {command.what} {command.target!r}"):
                self._table.update_entity({**key, **_columns(command)}, mode=UpdateMode.REPLACE)
        except StorageUnavailableError:
            # The effect exists and the row names its author. An error now would say that nothing was done.
            command.details["unrecorded"] = "the result is not in the audit table"


def _refuse_repeated(found: AuditedAct) -> ActRepeatedError:
    return ActRepeatedError(
        f"{found.what} {found.target!r} was sent before, so it was not done again; its result: {found.result}"
    )


def _key(at: datetime, nonce: str) -> dict[str, str]:
    known = at.astimezone(UTC)
    return {"PartitionKey": f"{known:%Y-%m}", "RowKey": f"{known.isoformat(timespec='microseconds')}|{nonce}"}


def _is_wanted(row: Mapping[str, Any], who: str, about: str) -> bool:
    return who in str(row["who"]) and about in str(row["target"])


def _act_of(row: Mapping[str, Any]) -> RecordedAct:
    known = {name: str(row[name]) for name in _NAMES}
    details = {name: str(value) for name, value in row.items() if name not in _NAMES and name not in _KEYS}
    return RecordedAct(datetime.fromisoformat(row["RowKey"].partition("|")[0]), AuditedAct(**known, details=details))


def _columns(command: AuditedAct) -> dict[str, str]:
    return {
        "who": command.who,
        "what": command.what,
        "target": command.target,
        "why": command.why,
        "result": command.result,
        **command.details,
    }
