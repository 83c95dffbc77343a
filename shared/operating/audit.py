"""The record of acts: who, what, when and why. One row before the effect, its result after it."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from azure.data.tables import TableClient, UpdateMode

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import StorageUnavailableError

#: The result of a command that is still running, or whose process died.
STARTED: Final = "started"


@dataclass(slots=True)
class AuditedAct:
    """An act that a person wants. The code that does it fills in `result`."""

    who: str
    what: str
    target: str
    why: str
    details: dict[str, str] = field(default_factory=dict)
    result: str = STARTED


class AuditTable:
    """The table of acts, one partition per month."""

    def __init__(self, table: TableClient, clock: Clock) -> None:
        self._table, self._clock = table, clock

    @contextmanager
    def record(self, command: AuditedAct) -> Iterator[AuditedAct]:
        """Write the row, run the block, then write its result. If the row cannot be written, the block does not run."""
        now = self._clock.now()
        key = {
            "PartitionKey": f"{now:%Y-%m}",
            "RowKey": f"{now.isoformat(timespec='microseconds')}|{secrets.token_hex(4)}",
        }
        with expecting_an_answer(f"record {command.what} {command.target!r} before doing it, so nothing was done"):
            self._table.upsert_entity({**key, **_columns(command)}, mode=UpdateMode.REPLACE)
        try:
            yield command
        except BaseException as error:
            command.result = f"failed: {type(error).__name__}"
            self._finish(key, command)
            raise
        self._finish(key, command)

    def _finish(self, key: dict[str, str], command: AuditedAct) -> None:
        try:
            with expecting_an_answer(f"record the result of {command.what} {command.target!r}"):
                self._table.update_entity({**key, **_columns(command)}, mode=UpdateMode.REPLACE)
        except StorageUnavailableError:
            # The effect exists and the row names its author. An error now would say that nothing was done.
            command.details["unrecorded"] = "the result is not in the audit table"


def _columns(command: AuditedAct) -> dict[str, str]:
    return {
        "who": command.who,
        "what": command.what,
        "target": command.target,
        "why": command.why,
        "result": command.result,
        **command.details,
    }
