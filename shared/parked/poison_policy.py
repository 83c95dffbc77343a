"""When a message is poison: by the nature of its exception, or by deliveries that began and never ended.

The second is a message that kills its worker, which raises nothing. So a delivery is noted before its work and after
it. The first delivery is not noted before its work, so that the ordinary message costs nothing. A chunk that is suspect
runs in a process of its own, and parks only if that dies. Any other message parks by the number of its deaths.

Each delivery that fails is noted with its kind, its place and its time, so that a person sees what is tried again.

The limits are in `PoisonPolicy`; the settings `SLUICE_POISON_*` replace them in an installation.

Notes of deliveries: which began, which ended, and how the last one failed.

They tell a message that kills its worker from one that fails, and a person what is tried again and why.

The cause of a failure: its reason, and the fingerprint that all failures of one cause share. Pure.
"""

import hashlib
import socket
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from itertools import islice
from pathlib import PurePath
from types import FrameType, MappingProxyType
from typing import Any, Final, NamedTuple

from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.data.tables import TableClient, UpdateMode

from shared.azure import delete_rows, expecting_an_answer
from shared.clock import Clock
from shared.errors import (
    ContentionError,
    Later,
    LaterFormatError,
    NewerVersionError,
    NoSlotError,
    ParkedTamperedError,
    PayloadTamperedError,
    RefusedError,
    ResultNotSentError,
    ResultRefusedError,
    StorageUnavailableError,
    UnknownWorkloadError,
)
from shared.parked.entry import NOT_ENTRIES, content_prefix, job_note
from shared.refusals import DeliveryReason
from shared.telemetry import origin_of, place

#: Sorts after every message id.
_AFTER_EVERY_ID: Final = "~"
#: Characters of a place in a note.
LONGEST_PLACE: Final = 1000
#: Parts of the key of an app's own message: its job and the message.
_PARTS: Final = 2
#: How the kind of a failure begins that is no fault: the message waits.
_WAITS: Final = "waits for "
#: Deliveries of which a message's row has marks.
_MOST_MARKS: Final = 100
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
    #: Of a chunk: how many of its transactions failed, and how many it has. 0: it failed as a whole.
    left: int = 0
    items: int = 0
    #: The delivery that parks it, if each further one fails alike. 0: none does.
    tries: int = 0
    #: When it is delivered again, and how many of its deliveries were put off so. None: it failed.
    due: datetime | None = None
    put_off: int = 0

    @property
    def words(self) -> str:
        """How it failed, for a person."""
        if self.due is not None:
            who = (
                f"{LeftCount(self.left, self.items)} {'waits' if self.left == 1 else 'wait'}" if self.left else "waits"
            )
            why = f"{self.kind.removeprefix(_WAITS)}{_name_place(self.place)}"
            return f"{who} for {why}, again at {self.due:%H:%M:%S}, {ordinal(self.put_off)} time"
        if self.left:
            be = "is" if self.left == 1 else "are"
            count = LeftCount(self.left, self.items)
            return f"{count} {be} tried again: {self.kind}{_name_place(self.place)}, try {self.deliveries - self.put_off} of {self.tries}"
        # Where a message waits in our own code is of no use to a person.
        return self.kind if self.kind.startswith(_WAITS) or not self.place else f"{self.kind} at {self.place}"


def ordinal(number: int) -> str:
    """Return a number in words of order: `3rd`."""
    last = 0 if number % 100 in {11, 12, 13} else number % 10
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def _name_place(place: str) -> str:
    """Return the innermost function of a place: `price (rates.py:41)`."""
    where, _, name = place.partition(" < ")[0].partition(" ")
    return f" at {name} ({where})" if name else ""


def notes_of(job: str) -> tuple[str, str, str]:
    """Return the partition of the notes of a job's messages, and the keys between which they are."""
    first = job_note(job, "")
    return NOT_ENTRIES, first, first + _AFTER_EVERY_ID


class Attempts:
    """Notes of deliveries, one row per message. The key of an app's own message begins with its job."""

    def __init__(self, table: TableClient, clock: Clock) -> None:
        self._table, self._clock = table, clock

    def note_begun(self, key: str, delivery: int, suspected: str = "") -> None:
        """Note that the work of a delivery begins. `suspected`: why it runs apart, for a person."""
        noted: dict[str, str | int] = {_column(delivery): Mark.BEGUN.value}
        if suspected:
            noted |= {**self._moment(), "kind": suspected, "place": "", "left": 0}
        self._note(key, delivery, noted)

    def note_failure(
        self,
        key: str,
        delivery: int,
        error: Exception | None,
        tries: int = 0,
        put_off: tuple[datetime, int] | None = None,
    ) -> None:
        """Note that a delivery ended, and how. No text of the error: it may quote a transaction.

        `tries`: the delivery that parks it, if each further one fails alike. 0: none does. `put_off`: when it is delivered
        again, as it waits, and how many deliveries were put off so. No error: it waits for the same as before.
        """
        noted: dict[str, str | int] = {_column(delivery): Mark.ENDED.value}
        if delivery > _MOST_MARKS:
            noted["deliveries"] = delivery
        # Two deliveries of one message write different marks, and the later one of them the rest.
        if error is not None:
            # Zeros replace those of the failure before.
            count = count_left(error)
            noted |= {"kind": kind_of(error)[:200], "place": place_of(error)[:LONGEST_PLACE]}
            noted |= {"left": count.left, "items": count.items, "tries": tries}
        if put_off is not None:
            noted |= {"due": put_off[0].isoformat(timespec="seconds"), "put_off": put_off[1]}
        self._note(key, delivery, noted | self._moment())

    def _moment(self) -> dict[str, str]:
        return {"at": self._clock.now().isoformat(timespec="seconds")}

    def _note(self, key: str, delivery: int, noted: Mapping[str, str | int]) -> None:
        with expecting_an_answer(f"note delivery {delivery} of {key!r}"):
            self._table.upsert_entity({"PartitionKey": NOT_ENTRIES, "RowKey": key, **noted}, mode=UpdateMode.MERGE)

    def list_failures(self, job: str) -> list[FailedAttempt]:
        """Return the failures of a job's messages that are tried again, by message. One request."""
        notes, prefix, last = notes_of(job)
        known = {"notes": notes, "first": prefix, "last": last}
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

    def of(self, key: str) -> tuple[dict[int, Mark], int]:
        """Return the notes by delivery, and how many deliveries were put off."""
        with expecting_an_answer(f"read the deliveries of {key!r}"):
            try:
                row = self._table.get_entity(NOT_ENTRIES, key)
            except ResourceNotFoundError:
                return {}, 0
        return _marks(row), row.get("put_off", 0)

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


def _column(delivery: int) -> str:
    """Return the column of a delivery. A row takes 252, and a message that waits may be delivered more often."""
    return f"d{(delivery - 1) % _MOST_MARKS + 1}"


def _marks(row: Mapping[str, Any]) -> dict[int, Mark]:
    return {int(name[1:]): Mark(value) for name, value in row.items() if name[:1] == "d" and name[1:].isdigit()}


def _failure(key: str, row: Mapping[str, Any]) -> FailedAttempt:
    marks = _marks(row)
    ended = [number for number, mark in marks.items() if mark is Mark.ENDED]
    # Of a suspect, none may have ended.
    at = datetime.fromisoformat(row["at"])
    # Rows of earlier versions count no transactions.
    counts = {name: row.get(name, 0) for name in ("left", "items", "tries", "put_off")}
    due = datetime.fromisoformat(row["due"]) if "due" in row else None
    if due is not None and due < at:
        # That was before.
        due = None
    deliveries = max(row.get("deliveries", 0), *(ended or marks))
    return FailedAttempt(key, deliveries, row["kind"], row["place"], at, due=due, **counts)


#: HTTP status codes that the same request gets however often it is sent.
_HOPELESS: Final = frozenset({400, 411, 413, 414, 416})


class Nature(Enum):
    """The nature of a failure: whether a retry can help."""

    #: Its cause is outside of the message and passes: never a reason to park.
    TRANSIENT = auto()
    #: The same message fails the same way every time.
    PERMANENT = auto()
    UNKNOWN = auto()


class KillerError(Exception):
    """Stands for the exception that a killed worker could not raise."""


class StandstillError(Exception):
    """Stands for the exception that a worker which stood still could not raise."""


_TRANSIENT: Final = (
    StorageUnavailableError,
    ContentionError,
    Later,
    NoSlotError,
    # A newer instance takes it; see `shared/versions.py`.
    NewerVersionError,
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
    StandstillError,
)


def nature_of(error: BaseException) -> Nature:
    """Return the nature of an exception."""
    if isinstance(error, FailedAloneError):
        return error.failed.nature
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
    #: A transaction that its service did not answer is parked after so many tries, if the service answers others.
    later: int = 12
    #: The first delivery that is noted before its work. Nearly every message is done at its first one, and a note is a request.
    noted_from: int = 2
    #: Seconds that a chunk may take in a process of its own. The host ends this one after ten minutes, of which a drain may
    #: have used four. And seconds for which no call of the workload may begin or end there.
    alone_seconds: int = 300
    still_seconds: int = 60
    #: Any other message parks before its work if so many deliveries began and never ended, and if an unknown failure would
    #: park it now. Fewer can come from an outage that kept an end from being noted.
    deaths: int = 3
    #: A step of a finish, which takes up to a minute, parks after so many. Where an instance ends each 20 seconds, three of
    #: four of its deliveries die of that.
    step_deaths: int = 10
    #: A job pauses when more than this share of its chunks, and more than this number, are parked.
    pause_share: float = 0.2
    pause_chunks: int = 5
    #: And when more than this share of its transactions, and more than this number, are set aside.
    pause_item_share: float = 0.01
    pause_items: int = 1000

    def parks(self, nature: Nature, delivery: int) -> bool:
        """Return whether a failure of this nature, at this delivery of its message, parks it."""
        return nature is Nature.PERMANENT or (nature is Nature.UNKNOWN and delivery >= self.deliveries)

    def most_deaths(self, *, is_step: bool) -> int:
        """Return how many deliveries of a message may end with the process before it parks."""
        return self.step_deaths if is_step else self.deaths

    def is_killer(self, deaths: int, delivery: int, *, is_step: bool = False) -> bool:
        """Return whether a message parks before any work, because so many deliveries ended with the process."""
        return delivery >= self.deliveries and deaths >= self.most_deaths(is_step=is_step)

    def pauses(self, parked: int, chunks: int) -> bool:
        """Return whether a job of so many chunks pauses instead of parking everything."""
        return parked > self.pause_chunks and parked > self.pause_share * chunks

    def pauses_items(self, aside: int, items: int) -> bool:
        """Return whether a job of so many transactions pauses because so many are set aside."""
        return aside > self.pause_items and aside > self.pause_item_share * items


DEFAULT_POLICY: Final = PoisonPolicy()


#: The version of `fingerprint_of`: fingerprints of two schemes cannot be compared.
FINGERPRINT_SCHEME: Final = 2
#: The package of this code: `shared`, or the wheel's name of it. And the one workload in it: billing, the example.
_OURS: Final = __name__.partition(".parked.")[0]
_EXAMPLE: Final = f"{_OURS}.workloads.billing"
#: Its name in fingerprints: the app and the wheel give the same cause the same one.
_EXAMPLE_NAME: Final = "shared.workloads.billing"
#: Folders of installed libraries. Python itself lists the standard library's names.
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
#: Comprehensions have frames of their own in some versions of Python only, so they never count.
_INLINED: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})
#: The attribute of an error with the number of its transaction.
_ITEM: Final = "_sluice_item"
#: The attribute of an error that stands for the failures of several transactions.
_LEFT: Final = "_sluice_left"
_REASONS: Final[Mapping[type[BaseException], DeliveryReason]] = MappingProxyType(
    {
        UnknownWorkloadError: DeliveryReason.UNKNOWN_WORKLOAD,
        KillerError: DeliveryReason.KILLED_ITS_WORKER,
        StandstillError: DeliveryReason.TOOK_TOO_LONG,
        NewerVersionError: DeliveryReason.NEWER_VERSION,
        LaterFormatError: DeliveryReason.NEWER_VERSION,
    }
)


class FailureCause(NamedTuple):
    """Why a message is parked: reason code, facts, remedy, the fingerprint of all failures of this cause, and where."""

    reason: str
    found: str
    instead: str
    fingerprint: str
    #: The functions that the error passed through, the innermost first. Empty: nothing was raised.
    place: str = ""
    #: The number of the transaction that failed. None: unknown.
    failed_item: int | None = None


class LeftCount(NamedTuple):
    """How many transactions of a chunk have failed, and how many it has."""

    left: int = 0
    items: int = 0

    def __str__(self) -> str:
        return f"{self.left:,} of {self.items:,}"


_WHOLE: Final = LeftCount()


class FailedAlone(NamedTuple):
    """A failure in a process of its own, as that process judged it: its traceback stays there."""

    kind: str
    nature: Nature
    cause: FailureCause


class FailedAloneError(Exception):
    """Stands for the exception that was raised in a process of its own."""

    def __init__(self, failed: FailedAlone) -> None:
        super().__init__(f"{failed.kind} in a process of its own")
        self.failed = failed


def kind_of(error: BaseException) -> str:
    """Return the type of an error, of the one that the user's code raised if it stands for that, or what it waits for."""
    if isinstance(error, FailedAloneError):
        return error.failed.kind
    if isinstance(error, Later) and error.found:
        return f"{_WAITS}{error.found}"
    if isinstance(error, NoSlotError) and error.waits_for:
        return f"{_WAITS}{error.waits_for}"
    return type(origin_of(error)).__name__


def place_of(error: BaseException) -> str:
    """Return the functions that an error passed through, the innermost first. A `Later` says itself what it waits for."""
    if isinstance(error, Later):
        return ""
    return error.failed.cause.place if isinstance(error, FailedAloneError) else place(error)


def count_deaths(marks: Mapping[int, Mark], delivery: int) -> int:
    """Return how many deliveries before this one began and never ended."""
    return sum(mark is Mark.BEGUN for number, mark in marks.items() if number < delivery)


def note_item(error: BaseException, number: int) -> None:
    """Keep with an error which transaction it is about. The number that was kept first stays."""
    error.__dict__.setdefault(_ITEM, number)


def item_of(error: BaseException) -> int | None:
    """Return which transaction an error is about, if that is known."""
    return error.__dict__.get(_ITEM)


def note_left(error: BaseException, number: int, left: int, items: int) -> None:
    """Keep with the first failure of a chunk its transaction, and how many of the chunk's have failed."""
    # A library may raise one object for several chunks, so what it was noted with before does not count.
    error.__dict__ |= {_ITEM: number, _LEFT: LeftCount(left, items)}


def cause_of(error: BaseException, stage: str, remedy: str) -> FailureCause:
    """Return the cause of an error.

    `remedy` is its stage's: it is used when neither the error nor its reason has one.
    """
    if isinstance(error, FailedAloneError):
        return _add_left(error.failed.cause, error)
    reason, fingerprint, raised = reason_of(error), fingerprint_of(error, stage), origin_of(error)
    cause = FailureCause(
        reason,
        f"{type(raised).__name__}: {raised}",
        known.instead if (known := _REASONS.get(type(error))) else remedy,
        fingerprint,
        place(error),
        item_of(error),
    )
    if isinstance(error, RefusedError):
        return cause._replace(found=error.found, instead=error.instead)
    return _add_left(cause, error)


def count_left(error: BaseException) -> LeftCount:
    """Return how many transactions of a chunk have failed. Of none alone: the chunk failed as a whole."""
    count: LeftCount = error.__dict__.get(_LEFT, _WHOLE)
    return count


def _add_left(cause: FailureCause, error: BaseException) -> FailureCause:
    count = count_left(error)
    return cause._replace(found=f"{cause.found}; {count} transactions failed") if count.left else cause


def reason_of(error: BaseException) -> str:
    """Return the reason code of a failure: short, permanent, and the same for the same cause."""
    if isinstance(error, RefusedError):
        return str(error.reason)
    known = _REASONS.get(type(error))
    how = "later" if nature_of(error) is Nature.TRANSIENT else "failed"
    return known.value if known else f"{how}:{type(origin_of(error)).__name__}"[:200]


def fingerprint_of(error: BaseException, stage: str) -> str:
    """Return a hash of the error's type, its reason and the workload's functions in its traceback.

    A failure outside of the workload is identified by its stage and our last function. Files, line numbers, values and
    libraries do not count: a later deployment must give the same cause the same fingerprint.
    """
    if isinstance(error, FailedAloneError):
        return error.failed.cause.fingerprint
    raised = origin_of(error)
    frames = [frame for frame, _ in traceback.walk_tb(raised.__traceback__)]
    places = [f"{_public(frame)}:{frame.f_code.co_name}" for frame in frames if _is_of_workload(frame)]
    if not places:
        ours = [frame.f_code.co_name for frame in frames if _is_ours(_module(frame))]
        places = [stage, *ours[-1:]]
    return hashlib.sha256("|".join([type(raised).__qualname__, reason_of(error), *places]).encode()).hexdigest()[:12]


def _is_of_workload(frame: FrameType) -> bool:
    """Return whether the code is neither ours nor a library's."""
    if frame.f_code.co_name in _INLINED:
        return False
    module = _module(frame)
    package = module.partition(".")[0]
    if _is_ours(module):
        return module == _EXAMPLE
    is_installed = not _INSTALLED.isdisjoint(PurePath(frame.f_code.co_filename).parts)
    return package not in sys.stdlib_module_names and not is_installed


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _public(frame: FrameType) -> str:
    module = _module(frame)
    return _EXAMPLE_NAME if module == _EXAMPLE else module


def _is_ours(module: str) -> bool:
    return module.startswith(f"{_OURS}.")
