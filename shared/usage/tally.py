"""Counts of requests, and who asked for them to be counted."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from threading import Lock
from typing import Final, NamedTuple

from shared.usage.requests import Kind


class Cause(StrEnum):
    """Why a request was made."""

    #: It moved a job on.
    USEFUL = "useful"
    #: It found nothing to do.
    IDLE = "idle"
    #: The SDK sent it again after a failure.
    RETRY = "retry"
    #: It lost a conditional write to somebody else.
    CONFLICT = "conflict"
    #: The tick looked for what was left behind.
    SWEEP = "sweep"


class Counted(NamedTuple):
    """What a count is kept of: a kind of request, and why it was made."""

    kind: Kind
    cause: Cause


class Tally:
    """Requests by kind and cause; safe from several threads."""

    def __init__(self) -> None:
        self._counts: Counter[Counted] = Counter()
        self._lock = Lock()

    def add(self, kind: Kind, cause: Cause, number: int = 1) -> None:
        """Count so many requests."""
        counted = Counted(kind, cause)
        with self._lock:
            self._counts[counted] += number

    def counts(self) -> Counter[Counted]:
        """Return what was counted so far."""
        with self._lock:
            return Counter(self._counts)

    def total(self) -> int:
        """Return how many requests there were."""
        return self.counts().total()


class Look:
    """One look for work, whose requests are useful when it found some and idle when it did not."""

    def __init__(self) -> None:
        self.has_found = False
        self._held: list[tuple[Tally, Kind, int]] = []

    def hold(self, tally: Tally, kind: Kind, number: int) -> None:
        """Keep a count until it is known what the look has found."""
        self._held.append((tally, kind, number))

    def settle(self) -> None:
        """Count what was held."""
        cause = Cause.USEFUL if self.has_found else Cause.IDLE
        for tally, kind, number in self._held:
            tally.add(kind, cause, number)


_cause: Final[ContextVar[Cause]] = ContextVar("cause", default=Cause.USEFUL)
_tallies: Final[ContextVar[tuple[Tally, ...]]] = ContextVar("tallies", default=())
_look: Final[ContextVar[Look | None]] = ContextVar("look", default=None)


@contextmanager
def because(cause: Cause) -> Iterator[None]:
    """Say why the requests made inside are made; threads need their caller's context (`copy_context().run`)."""
    token = _cause.set(cause)
    try:
        yield
    finally:
        _cause.reset(token)


@contextmanager
def looking() -> Iterator[Look]:
    """Say that the requests made inside look for work; set `has_found` on what is yielded when there was some."""
    look = Look()
    token = _look.set(look)
    try:
        yield look
    finally:
        _look.reset(token)
        look.settle()


@contextmanager
def tallied() -> Iterator[Tally]:
    """Count the requests made inside, besides the meter's own count; may be nested."""
    tally = Tally()
    token = _tallies.set((*_tallies.get(), tally))
    try:
        yield tally
    finally:
        _tallies.reset(token)


def current_cause() -> Cause:
    """Return why requests are made now."""
    return _cause.get()


def count(own: Tally, kind: Kind, cause: Cause, number: int = 1) -> None:
    """Count in the tally of the process and in those of whoever asked for one around this."""
    look = _look.get() if cause is Cause.USEFUL else None
    for tally in (own, *_tallies.get()):
        if look is None:
            tally.add(kind, cause, number)
        else:
            look.hold(tally, kind, number)
