"""When a message is poison: by the nature of its exception, or by deliveries that began and never ended.

The second is a message that kills its worker, which raises nothing. So a delivery is noted before its work and after
it. Only late deliveries are noted, so that the ordinary message costs nothing.

Order: note begun, work, note ended, park (the caller), forget the notes.

The limits are in `PoisonPolicy`; the settings `SLUICE_POISON_*` replace them in an installation.
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

#: Sorts after every message id.
_AFTER_EVERY_ID: Final = "~"
#: HTTP status codes that the same request gets however often it is sent.
_HOPELESS: Final = frozenset({400, 411, 413, 414, 416})


class Nature(Enum):
    """The nature of a failure: whether a retry can help."""

    #: Its cause is outside of the message and passes: never a reason to park.
    TRANSIENT = auto()
    #: The same message fails the same way every time.
    PERMANENT = auto()
    UNKNOWN = auto()


class Mark(StrEnum):
    """A note about one delivery."""

    BEGUN = "begun"
    ENDED = "ended"


class KillerError(Exception):
    """Stands for the exception that a killed worker could not raise."""


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
    """Return the nature of an exception."""
    if isinstance(error, StorageUnavailableError) and isinstance(error.__cause__, HttpResponseError):
        return nature_of(error.__cause__)
    if isinstance(error, HttpResponseError):
        # A missing role, or an entity that is still being created, is not the fault of the message.
        return Nature.UNKNOWN if error.status_code in _HOPELESS else Nature.TRANSIENT
    if isinstance(error, _TRANSIENT):
        return Nature.TRANSIENT
    return Nature.PERMANENT if isinstance(error, _PERMANENT) else Nature.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonPolicy:
    """The limits at which a message is poison and a job pauses: the one place of their values."""

    #: A failure of unknown nature parks at this delivery.
    deliveries: int = 5
    #: A message that killed its worker parks before any work at this delivery ...
    killed_at: int = 10
    #: ... if at least so many deliveries began and never ended. Fewer can come from an outage that kept the end of a
    #: delivery from being noted, which must not park anything.
    deaths: int = 5
    #: The first delivery that is noted. Nearly every message is done at its first one, and a note is a request.
    noted_from: int = 3
    #: A job pauses when more than this share of its chunks, and more than this number, are parked.
    pause_share: float = 0.2
    pause_chunks: int = 5

    def parks(self, nature: Nature, delivery: int) -> bool:
        """Return whether a failure of this nature, at this delivery of its message, parks it."""
        return nature is Nature.PERMANENT or (nature is Nature.UNKNOWN and delivery >= self.deliveries)

    def is_killer(self, marks: Mapping[int, Mark], delivery: int) -> bool:
        """Return whether the deliveries before this one ended with the process and not with an exception."""
        deaths = sum(mark is Mark.BEGUN for number, mark in marks.items() if number < delivery)
        return delivery >= self.killed_at and deaths >= self.deaths

    def pauses(self, parked: int, chunks: int) -> bool:
        """Return whether a job of so many chunks pauses instead of parking everything."""
        return parked > self.pause_chunks and parked > self.pause_share * chunks


DEFAULT_POLICY: Final = PoisonPolicy()


def submission_note(queue: str, body: bytes, message_id: str) -> str:
    """Return the key of a submission's notes. The host's poison copy has another id and the same body."""
    return f"{_key_prefix(queue, body)}{message_id}"


def _key_prefix(queue: str, body: bytes) -> str:
    return f"{queue}|{sha256(body).hexdigest()}|"


class Attempts:
    """Notes of deliveries, one row per message."""

    def __init__(self, table: TableClient) -> None:
        self._table = table

    def note(self, key: str, delivery: int, mark: Mark) -> None:
        """Note a delivery without reading first: two deliveries of one message write different properties."""
        row = {"PartitionKey": NOT_ENTRIES, "RowKey": key, f"d{delivery}": mark.value}
        with expecting_an_answer(f"note delivery {delivery} of {key!r}"):
            self._table.upsert_entity(row, mode=UpdateMode.MERGE)

    def of(self, key: str) -> dict[int, Mark]:
        """Return the notes by delivery."""
        with expecting_an_answer(f"read the deliveries of {key!r}"):
            try:
                row = self._table.get_entity(NOT_ENTRIES, key)
            except ResourceNotFoundError:
                return {}
        return {int(name[1:]): Mark(value) for name, value in row.items() if name[:1] == "d" and name[1:].isdigit()}

    def list_drops(self, queue: str, body: bytes) -> list[str]:
        """Return the ids of the messages with this body that have notes: delivered late, and not done or parked yet."""
        first = _key_prefix(queue, body)
        known = {"notes": NOT_ENTRIES, "first": first, "last": first + _AFTER_EVERY_ID}
        wanted = "PartitionKey eq @notes and RowKey ge @first and RowKey lt @last"
        with expecting_an_answer("find the submission that a poison message is a copy of"):
            rows = self._table.query_entities(wanted, parameters=known)
            return [row["RowKey"].removeprefix(first) for row in rows]

    def forget(self, key: str) -> None:
        """Remove the notes of a message. Safe to repeat."""
        with expecting_an_answer(f"forget the deliveries of {key!r}"):
            self._table.delete_entity(NOT_ENTRIES, key)


class Deliveries:
    """Attempts the deliveries of one kind of message."""

    def __init__(self, attempts: Attempts, policy: PoisonPolicy = DEFAULT_POLICY) -> None:
        self._attempts, self._policy = attempts, policy

    def attempt(self, key: str, count: int, work: Callable[[], object]) -> Exception | None:
        """Do the work. Return the error to park by before `forget`, or None when done. Raise to have it redelivered."""
        if count >= self._policy.killed_at and self._policy.is_killer(self._attempts.of(key), count):
            # Before any work: it would be the next death.
            return KillerError(
                f"at least {self._policy.deaths} of the {count - 1} deliveries before this one ended with the process"
            )
        if count >= self._policy.noted_from:
            self._attempts.note(key, count, Mark.BEGUN)
        try:
            work()
        except Exception as error:
            if count >= self._policy.noted_from:
                # An outage may prevent this note. Such a delivery counts as a death, but one is below the limit.
                with suppress(StorageUnavailableError):
                    self._attempts.note(key, count, Mark.ENDED)
            if not self._policy.parks(nature_of(error), count):
                raise
            return error
        self.forget(key, count)
        return None

    def forget(self, key: str, count: int) -> None:
        """Forget the notes of a message, only once its effect or its entry is stored: a crash before still needs them."""
        if count >= self._policy.noted_from:
            # A note that stays is never read again.
            with suppress(StorageUnavailableError):
                self._attempts.forget(key)
