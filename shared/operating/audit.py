"""The record of acts: who, what, when and why. One row before the effect, and a second one with its result after it.

Rows are only added, never changed. So an operator's role needs no right to change or delete one (docs/security.md).
"""

import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.data.tables import TableClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import ActRepeatedError, StorageUnavailableError
from shared.watch import Act

#: The result of a command that is still running, or whose process died.
STARTED: Final = "started"
#: An act that planned an opening is looked for so far back, over the end of a month.
PLANNED_AHEAD: Final = timedelta(days=7)
#: What the key of an end has after that of its begin. So the two stand beside each other.
_END: Final = "|end"
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

    def __init__(self, table: TableClient, clock: Clock, mark: Callable[[Act], object] | None = None) -> None:
        """`mark`: gets each act that ended, for the picture of the day."""
        self._table, self._clock, self._mark = table, clock, mark

    @contextmanager
    def record(self, command: AuditedAct, named: ActKey | None = None) -> Iterator[AuditedAct]:
        """Write the row, run the block, then the row of its end. If the first cannot be written, the block does not run.

        `named`: the act was named before. Raise ActRepeatedError if it was attempted already.
        """
        key = _key(named.at, named.nonce) if named else _key(self._clock.now(), secrets.token_hex(4))
        if named:
            # After a lost reply it tells whether this call wrote the row.
            command.details["attempt"] = secrets.token_hex(8)
        with expecting_an_answer(f"record {command.what} {command.target!r} before doing it, so nothing was done"):
            found = self._add(key, command)
            if found != command:
                raise self._refuse_repeated(key, found)
        try:
            yield command
        except BaseException as error:
            command.result = f"failed: {type(error).__name__}"
            self._end(key, command)
            raise
        self._end(key, command)

    def note(self, done: AuditedAct, named: ActKey) -> None:
        """Write the row of an act with its result, unless it is there: any number of processes may write it."""
        with expecting_an_answer(f"record {done.what} {done.target!r}"), suppress(ResourceExistsError):
            self._table.create_entity({**_key(named.at, named.nonce), **_columns(done)})
            self._mark_end(done, named.at)

    def check_new(self, named: ActKey) -> None:
        """Raise ActRepeatedError if the act was attempted already. One request."""
        key = _key(named.at, named.nonce)
        with expecting_an_answer("look for an act in the audit"):
            found = self._find(key)
            if found is not None:
                raise self._refuse_repeated(key, found)

    def _add(self, key: dict[str, str], act: AuditedAct) -> AuditedAct:
        """Insert a row, and return the act that the table has under its key.

        The library repeats no insert whose reply was lost. Only a read shows whether the row was written.
        """
        try:
            self._table.create_entity({**key, **_columns(act)})
        except AzureError as refusal:
            found = self._find(key)
            if found is not None:
                return found
            if isinstance(refusal, HttpResponseError):
                raise
            return self._add_again(key, act)
        return act

    def _add_again(self, key: dict[str, str], act: AuditedAct) -> AuditedAct:
        try:
            self._table.create_entity({**key, **_columns(act)})
        except ResourceExistsError:
            # The first insert took its effect late.
            return self._find(key) or act
        return act

    def _find(self, key: dict[str, str]) -> AuditedAct | None:
        try:
            return _act_of(self._table.get_entity(key["PartitionKey"], key["RowKey"])).act
        except ResourceNotFoundError:
            return None

    def _refuse_repeated(self, key: dict[str, str], begun: AuditedAct) -> ActRepeatedError:
        ended = self._find(_end_of(key)) or begun
        return ActRepeatedError(
            f"{begun.what} {begun.target!r} was sent before, so it was not done again; its result: {ended.result}"
        )

    def newest(self, month: str, most: int, *, who: str = "", about: str = "") -> list[RecordedAct]:
        """Return the last acts of a month, such as 2026-11, the newest first. One request for a thousand rows."""
        with expecting_an_answer(f"read the audit of {month}"):
            rows = self._table.query_entities("PartitionKey eq @month", parameters={"month": month})
            found = deque((one for one in acts_of(rows) if _is_wanted(one.act, who, about)), maxlen=most)
        return [*reversed(found)]

    def list_about(self, target: str, at: datetime) -> Iterator[AuditedAct]:
        """Yield the acts on a target in the month of a moment, the newest first. One request.

        Another one in the first week of a month, for those of the month before, if the caller goes on.
        """
        for month in dict.fromkeys(f"{one.astimezone(UTC):%Y-%m}" for one in (at, at - PLANNED_AHEAD)):
            with expecting_an_answer(f"read the audit of {month}"):
                words, values = "PartitionKey eq @month and target eq @target", {"month": month, "target": target}
                acts = [one.act for one in acts_of(self._table.query_entities(words, parameters=values))]
            yield from reversed(acts)

    def _mark_end(self, act: AuditedAct, at: datetime) -> None:
        # The audit has the act. Without an answer the picture of the day lacks a mark.
        with suppress(StorageUnavailableError):
            if self._mark is not None:
                self._mark(Act(at, act.who, act.what, act.target, act.result))

    def _end(self, key: dict[str, str], command: AuditedAct) -> None:
        try:
            with expecting_an_answer(f"record the result of {command.what} {command.target!r}"):
                found = self._add(_end_of(key), command)
        except StorageUnavailableError:
            # The effect exists and the row names its author. An error now would say that nothing was done.
            command.details["unrecorded"] = "the result is not in the audit table"
            return
        self._mark_end(command, self._clock.now())
        if found != command:
            command.details["unrecorded"] = "the audit has another result, which another process added"


def acts_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[RecordedAct]:
    """Yield the acts of rows in the order of their keys. Releases before 0.5.0 wrote the result into the first row."""
    key, begun = "", None
    for row in rows:
        if begun is not None and row["RowKey"] == key + _END:
            yield _with_end(begun, _act_of(row).act)
            begun = None
            continue
        if begun is not None:
            yield begun
        key, begun = row["RowKey"], _act_of(row)
    if begun is not None:
        yield begun


def _with_end(begun: RecordedAct, end: AuditedAct) -> RecordedAct:
    """Take the result alone from the end, and what it adds: any operator may add a row, an end too."""
    details = {**end.details, **begun.act.details}
    return replace(begun, act=replace(begun.act, result=end.result, details=details))


def _key(at: datetime, nonce: str) -> dict[str, str]:
    known = at.astimezone(UTC)
    return {"PartitionKey": f"{known:%Y-%m}", "RowKey": f"{known.isoformat(timespec='microseconds')}|{nonce}"}


def _end_of(key: Mapping[str, str]) -> dict[str, str]:
    return {"PartitionKey": key["PartitionKey"], "RowKey": key["RowKey"] + _END}


def _is_wanted(act: AuditedAct, who: str, about: str) -> bool:
    return who in act.who and about in act.target


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
