"""When a message is poison: by the nature of its exception, or by deliveries that began and never ended.

The second is a message that kills its worker, which raises nothing. So a delivery is noted before its work and after
it. Only late deliveries are noted before their work, so that the ordinary message costs nothing.

Each delivery that fails is noted with its kind, its place and its time, so that a person sees what is tried again.

Order: note begun, work, note the failure, park (the caller), forget the notes.

The limits are in `PoisonPolicy`; the settings `SLUICE_POISON_*` replace them in an installation.
"""

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from azure.core.exceptions import AzureError, HttpResponseError

from shared.errors import (
    ContentionError,
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
from shared.parked.attempts import Attempts, Mark

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


_TRANSIENT: Final = (
    StorageUnavailableError,
    ContentionError,
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
    #: The first delivery that is noted before its work. Nearly every message is done at its first one, and a note is a request.
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


class Deliveries:
    """Attempts the deliveries of one kind of message."""

    def __init__(self, attempts: Attempts, policy: PoisonPolicy = DEFAULT_POLICY) -> None:
        self._attempts, self._policy = attempts, policy

    def attempt(
        self, key: str, count: int, work: Callable[[], object], is_back: Callable[[Exception], bool]
    ) -> Exception | None:
        """Do the work. Return the error to park by before `forget`, or None when done. Raise to have it redelivered.

        `is_back`: whether the message was replayed for this very failure. Then it is parked at once.
        """
        if count >= self._policy.killed_at and self._policy.is_killer(self._attempts.of(key), count):
            # Before any work: it would be the next death.
            return KillerError(
                f"at least {self._policy.deaths} of the {count - 1} deliveries before this one ended with the process"
            )
        if count >= self._policy.noted_from:
            self._attempts.note_begun(key, count)
        try:
            work()
        except Exception as error:
            is_parked = self._parks(error, count, is_back)
            if self._is_worth_a_note(error, count, is_parked=is_parked):
                # An outage may prevent this note. Such a delivery counts as a death, but one is below the limit.
                with suppress(StorageUnavailableError):
                    self._attempts.note_failure(key, count, error)
            if not is_parked:
                raise
            return error
        self.forget(key, count)
        return None

    def _parks(self, error: Exception, count: int, is_back: Callable[[Exception], bool]) -> bool:
        nature = nature_of(error)
        if nature is not Nature.UNKNOWN or self._policy.parks(nature, count):
            return self._policy.parks(nature, count)
        try:
            return is_back(error)
        except StorageUnavailableError:
            # The next delivery asks again.
            return False

    def _is_worth_a_note(self, error: Exception, count: int, *, is_parked: bool) -> bool:
        if count >= self._policy.noted_from:
            return True
        # The entry has the whole failure, and storage that is down takes no note either.
        return not is_parked and not isinstance(error, StorageUnavailableError)

    def forget(self, key: str, count: int) -> None:
        """Forget the notes of a message, only once its effect or its entry is stored: a crash before still needs them."""
        # At its first delivery a message has none.
        if count > 1:
            # A note that stays is never read again.
            with suppress(StorageUnavailableError):
                self._attempts.forget(key)
