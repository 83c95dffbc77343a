"""Notes of deliveries: which began, which ended, and how the last one failed.

They tell a message that kills its worker from one that fails, and a person what is tried again and why.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import delete_rows, expecting_an_answer
from shared.clock import Clock
from shared.parked.entry import NOT_ENTRIES, content_prefix, job_note
from shared.telemetry import origin_of, place

#: Sorts after every message id.
_AFTER_EVERY_ID: Final = "~"
#: Characters of a place in a note.
LONGEST_PLACE: Final = 1000
#: Parts of the key of an app's own message: its job and the message.
_PARTS: Final = 2
#: Notes of one request.
MOST_LISTED: Final = 1000
#: Hour of the day, in UTC, at which old notes are removed, and how many: a few seconds of a tick.
CLEAN_HOUR: Final = 4
MOST_REMOVED: Final = 10_000


class Mark(StrEnum):
    """A note about one delivery."""

    BEGUN = "begun"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """The last failure of a message that is tried again."""

    #: The message: the key that its entry would have.
    key: str
    #: Its deliveries so far.
    deliveries: int
    kind: str
    place: str
    at: datetime


class Attempts:
    """Notes of deliveries, one row per message. The key of an app's own message begins with its job."""

    def __init__(self, table: TableClient, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def note_begun(self, key: str, delivery: int) -> None:
        """Note that the work of a delivery begins."""
        self._note(key, delivery, {f"d{delivery}": Mark.BEGUN.value})

    def note_failure(self, key: str, delivery: int, error: Exception) -> None:
        """Note that a delivery ended, and how. No text of the error: it may quote a transaction."""
        # Two deliveries of one message write different marks, and the later one of them the rest.
        last = {"kind": type(origin_of(error)).__name__[:200], "place": place(error)[:LONGEST_PLACE]}
        at = self._clock.now().isoformat(timespec="seconds")
        self._note(key, delivery, {f"d{delivery}": Mark.ENDED.value, **last, "at": at})

    def _note(self, key: str, delivery: int, noted: dict[str, str]) -> None:
        with expecting_an_answer(f"note delivery {delivery} of {key!r}"):
            self._table.upsert_entity({"PartitionKey": NOT_ENTRIES, "RowKey": key, **noted}, mode=UpdateMode.MERGE)

    def list_failures(self, job: str) -> list[FailedAttempt]:
        """Return the failures of a job's messages that are tried again, by message. One request."""
        prefix = job_note(job, "")
        known = {"notes": NOT_ENTRIES, "first": prefix, "last": prefix + _AFTER_EVERY_ID}
        wanted = "PartitionKey eq @notes and RowKey ge @first and RowKey lt @last"
        with expecting_an_answer(f"read the failed deliveries of job {job!r}"):
            rows = list(self._table.query_entities(wanted, parameters=known))
        # Rows of earlier versions have marks only.
        return [_failure(row["RowKey"].removeprefix(prefix), row) for row in rows if "at" in row]

    def list_failing(self) -> set[str]:
        """Return the jobs with messages that failed and are tried again, by their notes. One request: of a thousand notes."""
        with expecting_an_answer("read the failed deliveries"):
            found = self._table.query_entities("PartitionKey eq @notes", parameters={"notes": NOT_ENTRIES})
            keys = [row["RowKey"].split("|") for row in islice(found, MOST_LISTED) if "at" in row]
        # The key of a submission has three parts.
        return {key[0] for key in keys if len(key) == _PARTS}

    def of(self, key: str) -> dict[int, Mark]:
        """Return the notes by delivery."""
        with expecting_an_answer(f"read the deliveries of {key!r}"):
            try:
                row = self._table.get_entity(NOT_ENTRIES, key)
            except ResourceNotFoundError:
                return {}
        return _marks(row)

    def list_drops(self, queue: str, body: bytes) -> list[str]:
        """Return the ids of the messages with this body that have notes: delivered late, and not done or parked yet."""
        first = content_prefix(queue, body)
        known = {"notes": NOT_ENTRIES, "first": first, "last": first + _AFTER_EVERY_ID}
        wanted = "PartitionKey eq @notes and RowKey ge @first and RowKey lt @last"
        with expecting_an_answer("find the submission that a poison message is a copy of"):
            rows = self._table.query_entities(wanted, parameters=known)
            return [row["RowKey"].removeprefix(first) for row in rows]

    def forget(self, key: str) -> None:
        """Remove the notes of a message. Safe to repeat."""
        with expecting_an_answer(f"forget the deliveries of {key!r}"):
            self._table.delete_entity(NOT_ENTRIES, key)

    def remove_old(self, kept: timedelta) -> None:
        """Remove the notes that were not written for so long, at the hour of the day for it.

        They are left by a process that died between the effect of a message and `forget`.
        """
        now = self._clock.now()
        if (now.hour, now.minute) != (CLEAN_HOUR, 0):
            return
        known = {"notes": NOT_ENTRIES, "before": now - kept}
        with expecting_an_answer("remove old notes of deliveries"):
            found = self._table.query_entities("PartitionKey eq @notes and Timestamp lt @before", parameters=known)
            # By its ETag: a note that is written again at this moment belongs to a message that is tried again.
            old = [(NOT_ENTRIES, str(row["RowKey"]), row.metadata["etag"] or "") for row in islice(found, MOST_REMOVED)]
            delete_rows(self._table, old)


def _marks(row: Mapping[str, Any]) -> dict[int, Mark]:
    return {int(name[1:]): Mark(value) for name, value in row.items() if name[:1] == "d" and name[1:].isdigit()}


def _failure(key: str, row: Mapping[str, Any]) -> FailedAttempt:
    ended = [number for number, mark in _marks(row).items() if mark is Mark.ENDED]
    return FailedAttempt(key, max(ended), row["kind"], row["place"], datetime.fromisoformat(row["at"]))
