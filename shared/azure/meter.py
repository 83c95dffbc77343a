"""Counts every storage request below the SDK's retry policy and every bus operation: of which kind, and why.

A retry and a lost race are requests on the bill like any other, so the count sits in the transport, the last place
that every attempt passes. What the caller alone can know, that a request was idle or part of a sweep, it says with
`because` or `looking`; retries and conflicts are seen here. The bus has no such place, so whoever sends, receives or
settles there says so with `count_bus`.

Counts of requests, and who asked for them to be counted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias

from azure.core.pipeline.transport import HttpRequest, HttpResponse, RequestsTransport
from requests import Session

from shared.azure.requests import BUS, Charge, RequestKind, identify, meter_of
from shared.azure.transport import OPEN_CONNECTIONS, SignedSession

__all__ = ["BusOperation", "Cause", "Meter", "RequestTally", "because", "current_cause", "looking", "tally_requests"]

#: Any address that no rule for proxies names: whether the environment has proxies and certificates of its own.
_ANYWHERE: Final = "https://storage.invalid"
#: What a lost conditional write is answered with.
CONFLICTS = frozenset({409, 412})


class BusOperation(StrEnum):
    """What is billed on the bus: each message once for each of these, whatever transfer it travelled in."""

    SEND = "send"
    RECEIVE = "receive"
    #: A receive that ended without a message.
    RECEIVE_EMPTY = "receive-empty"
    COMPLETE = "complete"
    ABANDON = "abandon"
    DEAD_LETTER = "dead-letter"
    RENEW = "renew"
    PEEK = "peek"


class Meter:
    """The count of one process; `transport` is given to every storage client."""

    def __init__(self, namespace: str = "") -> None:
        self.tally = RequestTally()
        self._namespace = namespace

    def transport(self, service: str, **options: Any) -> RequestsTransport:
        """Return the transport of one client of this service."""
        return _CountingTransport(self.tally, service, **options)

    def count_bus(self, operation: BusOperation, entity: str, number: int = 1) -> None:
        """Count operations on a queue or a topic of the bus, one for each message; say it before they are tried."""
        cause = Cause.IDLE if operation is BusOperation.RECEIVE_EMPTY else current_cause()
        count(self.tally, RequestKind(self._namespace, BUS, entity, operation.value), cause, number)


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


class CountedRequest(NamedTuple):
    """What a count is kept of: a kind of request, and why it was made."""

    kind: RequestKind
    cause: Cause


class RequestTally:
    """Requests by kind and cause; safe from several threads."""

    def __init__(self) -> None:
        self._counts: Counter[CountedRequest] = Counter()
        self._lock = Lock()

    def add(self, kind: RequestKind, cause: Cause, number: int = 1) -> None:
        """Count so many requests."""
        counted = CountedRequest(kind, cause)
        with self._lock:
            self._counts[counted] += number

    def counts(self) -> Counter[CountedRequest]:
        """Return what was counted so far."""
        with self._lock:
            return Counter(self._counts)

    def total(self) -> int:
        """Return how many requests there were."""
        return self.counts().total()


class _CountingTransport(RequestsTransport):  # type: ignore[misc]  # the SDK imports it lazily, untyped
    def __init__(self, tally: RequestTally, service: str, **options: Any) -> None:
        # Asked once here and not at each request, where it takes a tenth of the request's CPU.
        environment = Session().merge_environment_settings(_ANYWHERE, {}, stream=None, verify=True, cert=None)
        # A proxy is for some hosts and not for others, so where there is one each request asks.
        session = {} if environment["proxies"] else {"session": SignedSession()}
        super().__init__(**{"connection_verify": environment["verify"], **session, **options})
        self._tally, self._service = tally, service

    def _init_session(self, session: Any) -> None:
        super()._init_session(session)
        for scheme in ("http://", "https://"):
            session.get_adapter(scheme).init_poolmanager(OPEN_CONNECTIONS, OPEN_CONNECTIONS)
        # Without one of its own it looks for a .netrc file at each request; the SDK has signed the request before.
        session.auth = _as_it_came

    def send(self, request: HttpRequest, **options: Any) -> HttpResponse:
        """Send, and count even what gets no reply: it may have been executed, and it is billed."""
        # The retry policy sends the very same object again.
        cause = Cause.RETRY if getattr(request, "was_sent", False) else current_cause()
        request.was_sent = True  # type: ignore[attr-defined]  # a mark of our own on the SDK's object
        kind = identify(self._service, request.method, request.url, getattr(request, "body", None))
        try:
            response: HttpResponse = super().send(request, **options)
        except BaseException:
            count(self._tally, kind, cause)
            raise
        lost = response.status_code in CONFLICTS and cause is not Cause.RETRY
        count(self._tally, kind, Cause.CONFLICT if lost else cause)
        return response


def _as_it_came(request: Any) -> Any:
    return request


class PollTally:
    """One look for work, whose requests are useful when it found some and idle when it did not."""

    def __init__(self) -> None:
        self.has_found = False
        self._held: list[tuple[RequestTally, RequestKind, int]] = []

    def hold(self, tally: RequestTally, kind: RequestKind, number: int) -> None:
        """Keep a count until it is known what the look has found."""
        self._held.append((tally, kind, number))

    def settle(self) -> None:
        """Count what was held."""
        cause = Cause.USEFUL if self.has_found else Cause.IDLE
        for tally, kind, number in self._held:
            tally.add(kind, cause, number)


_cause: Final[ContextVar[Cause]] = ContextVar("cause", default=Cause.USEFUL)
_tallies: Final[ContextVar[tuple[RequestTally, ...]]] = ContextVar("tallies", default=())
_look: Final[ContextVar[PollTally | None]] = ContextVar("look", default=None)


@contextmanager
def because(cause: Cause) -> Iterator[None]:
    """Say why the requests made inside are made; threads need their caller's context (`copy_context().run`)."""
    token = _cause.set(cause)
    try:
        yield
    finally:
        _cause.reset(token)


@contextmanager
def looking() -> Iterator[PollTally]:
    """Say that the requests made inside look for work; set `has_found` on what is yielded when there was some."""
    look = PollTally()
    token = _look.set(look)
    try:
        yield look
    finally:
        _look.reset(token)
        look.settle()


@contextmanager
def tally_requests() -> Iterator[RequestTally]:
    """Count the requests made inside, besides the meter's own count; may be nested."""
    tally = RequestTally()
    token = _tallies.set((*_tallies.get(), tally))
    try:
        yield tally
    finally:
        _tallies.reset(token)


def current_cause() -> Cause:
    """Return why requests are made now."""
    return _cause.get()


def count(own: RequestTally, kind: RequestKind, cause: Cause, number: int = 1) -> None:
    """Count in the tally of the process and in those of whoever asked for one around this."""
    look = _look.get() if cause is Cause.USEFUL else None
    for tally in (own, *_tallies.get()):
        if look is None:
            tally.add(kind, cause, number)
        else:
            look.hold(tally, kind, number)


RequestCounts: TypeAlias = Mapping[Charge, int]


def usage_of(tally: RequestTally) -> RequestCounts:
    """Return what a tally counted, as it is billed."""
    return usage_of_counts(tally.counts())


def usage_of_counts(counts: Mapping[CountedRequest, int]) -> RequestCounts:
    """Return counts as they are billed."""
    found: Counter[Charge] = Counter()
    for (kind, cause), number in counts.items():
        found[Charge(meter_of(kind), cause.value)] += number
    return found


def charges(tally: RequestTally) -> dict[str, int]:
    """Return what a tally counted as messages and rows have it."""
    return {str(charge): number for charge, number in usage_of(tally).items()}
