"""When a message is poison: an exception is judged, late deliveries are noted, and a killer is known by its notes.

A late delivery is noted before its work and after it, so that a message which kills its worker is known by deliveries
that began and never ended. Only late ones are noted, so that the ordinary message costs nothing.
"""

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from hashlib import sha256
from typing import Final

from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import expecting_an_answer
from shared.errors import (
    ContentionError,
    NoSlotError,
    ParkedTamperedError,
    PayloadTamperedError,
    RefusedError,
    ResultNotSentError,
    ResultRefusedError,
    StorageUnavailableError,
    UnknownWorkloadError,
)
from shared.parked.entry import NOT_ENTRIES

#: Stands behind every id of a message.
_AFTER_EVERY_ID: Final = "~"
#: Answers that the same request would get again however often it is sent.
_HOPELESS: Final = frozenset({400, 411, 413, 414, 416})


class Nature(Enum):
    """What is known about a failure."""

    #: It lies outside of the message and passes: never a reason to park.
    TRANSIENT = auto()
    #: The same message fails the same way every time.
    PERMANENT = auto()
    UNKNOWN = auto()


class Mark(StrEnum):
    """What is noted about one delivery."""

    BEGUN = "begun"
    ENDED = "ended"


class KillerError(Exception):
    """Stands for the exception that a worker that died could not raise."""


_TRANSIENT: Final = (
    StorageUnavailableError,
    ContentionError,
    NoSlotError,
    ResultNotSentError,
    AzureError,
    ConnectionError,
    TimeoutError,
    socket.gaierror,
)
_PERMANENT: Final = (
    RefusedError,
    UnknownWorkloadError,
    PayloadTamperedError,
    ParkedTamperedError,
    ResultRefusedError,
    KillerError,
)


def nature_of(error: BaseException) -> Nature:
    """Return what an exception says about trying again."""
    if isinstance(error, StorageUnavailableError) and isinstance(error.__cause__, HttpResponseError):
        return nature_of(error.__cause__)
    if isinstance(error, HttpResponseError):
        # A missing role or an entity that is being made is nobody's fault who waits in the queue.
        return Nature.UNKNOWN if error.status_code in _HOPELESS else Nature.TRANSIENT
    if isinstance(error, _TRANSIENT):
        return Nature.TRANSIENT
    return Nature.PERMANENT if isinstance(error, _PERMANENT) else Nature.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonPolicy:
    """The limits by which a message, or a job, is taken for poison; the one place of their values."""

    #: An exception of an unknown kind parks at this delivery.
    deliveries: int = 5
    #: A message that killed its worker parks before any work at this delivery ...
    killed_at: int = 10
    #: ... when at least so many deliveries began and never ended. Fewer can come from the outage that also kept the end
    #: of a delivery from being noted, which must not park anything.
    deaths: int = 5
    #: The deliveries before this one are not noted: nearly every message is done at its first, and a note is a request.
    noted_from: int = 3
    #: A job pauses when more than this share of its chunks, and more than so many, are parked.
    pause_share: float = 0.2
    pause_chunks: int = 5

    def parks(self, nature: Nature, delivery: int) -> bool:
        """Whether a failure of this nature, at this delivery of its message, is the last one."""
        return nature is Nature.PERMANENT or (nature is Nature.UNKNOWN and delivery >= self.deliveries)

    def is_killer(self, marks: Mapping[int, Mark], delivery: int) -> bool:
        """Whether the deliveries before this one ended with the process and not with an exception."""
        deaths = sum(mark is Mark.BEGUN for number, mark in marks.items() if number < delivery)
        return delivery >= self.killed_at and deaths >= self.deaths

    def pauses(self, parked: int, chunks: int) -> bool:
        """Whether a job of so many chunks pauses instead of parking everything."""
        return parked > self.pause_chunks and parked > self.pause_share * chunks


DEFAULT_POLICY: Final = PoisonPolicy()


def submission_note(queue: str, body: bytes, message_id: str) -> str:
    """Return the key of a submission's notes: the host's poison copy has another id and the same body."""
    return f"{_notes_of(queue, body)}{message_id}"


def _notes_of(queue: str, body: bytes) -> str:
    return f"{queue}|{sha256(body).hexdigest()}|"


class Attempts:
    """Marks of deliveries, one row a message."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def note(self, key: str, delivery: int, mark: Mark) -> None:
        """Note it without reading first: two deliveries of one message write different properties."""
        row = {"PartitionKey": NOT_ENTRIES, "RowKey": key, f"d{delivery}": mark.value}
        with expecting_an_answer(f"note delivery {delivery} of {key!r}"):
            self._table.upsert_entity(row, mode=UpdateMode.MERGE)

    def of(self, key: str) -> dict[int, Mark]:
        """Return what was noted, by delivery."""
        with expecting_an_answer(f"read the deliveries of {key!r}"):
            try:
                row = self._table.get_entity(NOT_ENTRIES, key)
            except ResourceNotFoundError:
                return {}
        return {int(name[1:]): Mark(value) for name, value in row.items() if name[:1] == "d" and name[1:].isdigit()}

    def list_drops(self, queue: str, body: bytes) -> list[str]:
        """Return the ids of the messages with this body whose late deliveries were noted and whose end was not."""
        first = _notes_of(queue, body)
        known = {"notes": NOT_ENTRIES, "first": first, "last": first + _AFTER_EVERY_ID}
        wanted = "PartitionKey eq @notes and RowKey ge @first and RowKey lt @last"
        with expecting_an_answer("look for the submission that a poison copy was made of"):
            rows = self._table.query_entities(wanted, parameters=known)
            return [row["RowKey"].removeprefix(first) for row in rows]

    def forget(self, key: str) -> None:
        """Remove the row; safe to repeat."""
        with expecting_an_answer(f"forget the deliveries of {key!r}"):
            self._table.delete_entity(NOT_ENTRIES, key)


class Deliveries:
    """Attempts at the deliveries of one kind of message."""

    def __init__(self, attempts: Attempts, policy: PoisonPolicy = DEFAULT_POLICY) -> None:
        self._attempts, self._policy = attempts, policy

    def attempt(self, key: str, count: int, work: Callable[[], object]) -> Exception | None:
        """Do the work; return the error to park the message by, then to `forget` it; raise to have it delivered again."""
        if count >= self._policy.killed_at and self._policy.is_killer(self._attempts.of(key), count):
            # Before any work: it would be the next death.
            return KillerError(f"{count} deliveries, and the process ended each time before the work did")
        if count >= self._policy.noted_from:
            self._attempts.note(key, count, Mark.BEGUN)
        try:
            work()
        except Exception as error:
            if count >= self._policy.noted_from:
                # An outage may keep this from being noted. One such delivery looks like a death, and one is too few.
                with suppress(StorageUnavailableError):
                    self._attempts.note(key, count, Mark.ENDED)
            if not self._policy.parks(nature_of(error), count):
                raise
            return error
        self.forget(key, count)
        return None

    def forget(self, key: str, count: int) -> None:
        """Forget the notes of a message, once its work is stored or its entry is: not before, or they are lost with it."""
        if count >= self._policy.noted_from:
            # A note that stays is never looked at again.
            with suppress(StorageUnavailableError):
                self._attempts.forget(key)
