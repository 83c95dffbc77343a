"""Counts every storage request below the SDK's retry policy, by service, operation and cause.

A retry and a lost race are requests on the bill like any other, so the count sits in the transport, the last place
that every attempt passes. What the caller alone can know, that a request was idle or part of a sweep, it says with
`because`; retries and conflicts are seen here.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from threading import Lock
from typing import Any, Final

from azure.core.pipeline.transport import HttpRequest, HttpResponse, RequestsTransport
from requests import Session


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


#: Connections that are kept open to a service: as many as a worker process has calls that run, or a dispatch has puts.
OPEN_CONNECTIONS: Final = 64
#: Any address that no rule for proxies names: whether the environment has proxies and certificates of its own.
_ANYWHERE: Final = "https://storage.invalid"
#: What a lost conditional write is answered with.
CONFLICTS = frozenset({409, 412})

_cause: ContextVar[Cause] = ContextVar("cause", default=Cause.USEFUL)
_tallies: ContextVar[tuple["Tally", ...]] = ContextVar("tallies", default=())


class Tally:
    """Requests by (service, method, cause); safe from several threads."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, Cause]] = Counter()
        self._lock = Lock()

    def add(self, service: str, method: str, cause: Cause) -> None:
        """Count one request."""
        with self._lock:
            self._counts[service, method, cause] += 1

    def counts(self) -> Counter[tuple[str, str, Cause]]:
        """Return what was counted so far."""
        with self._lock:
            return Counter(self._counts)

    def by_cause(self) -> dict[str, int]:
        """Return the requests of each cause."""
        causes: Counter[str] = Counter()
        for (_, _, cause), count in self.counts().items():
            causes[cause.value] += count
        return dict(causes)

    def total(self) -> int:
        """Return how many requests there were."""
        return self.counts().total()


@contextmanager
def because(cause: Cause) -> Iterator[None]:
    """Say why the requests made inside are made; threads need their caller's context (`copy_context().run`)."""
    token = _cause.set(cause)
    try:
        yield
    finally:
        _cause.reset(token)


@contextmanager
def tallied() -> Iterator[Tally]:
    """Count the requests made inside, besides the meter's own count; may be nested."""
    tally = Tally()
    token = _tallies.set((*_tallies.get(), tally))
    try:
        yield tally
    finally:
        _tallies.reset(token)


class Meter:
    """The count of one process; `transport` is given to every storage client."""

    def __init__(self) -> None:
        self.tally = Tally()

    def transport(self, service: str, **options: Any) -> RequestsTransport:
        """Return the transport of one client of this service."""
        return _CountingTransport(self.tally, service, **options)


class _CountingTransport(RequestsTransport):  # type: ignore[misc]  # the SDK imports it lazily, untyped
    def __init__(self, tally: Tally, service: str, **options: Any) -> None:
        # Asked once here and not at each request, where it takes a tenth of the request's CPU.
        environment = Session().merge_environment_settings(_ANYWHERE, {}, stream=None, verify=True, cert=None)
        self._has_proxies = bool(environment["proxies"])
        super().__init__(**{"connection_verify": environment["verify"], **options})
        self._tally, self._service = tally, service

    def _init_session(self, session: Any) -> None:
        super()._init_session(session)
        # A proxy is for some hosts and not for others, so where there is one each request asks.
        session.trust_env = self._has_proxies
        for scheme in ("http://", "https://"):
            # By default ten are kept: whoever is the eleventh connects anew, for each request.
            session.get_adapter(scheme).init_poolmanager(OPEN_CONNECTIONS, OPEN_CONNECTIONS)
        # Without one of its own it looks for a .netrc file at each request; the SDK has signed the request before.
        session.auth = _unchanged

    def send(self, request: HttpRequest, **options: Any) -> HttpResponse:
        """Send, and count even what gets no reply: it may have been executed, and it is billed."""
        # The retry policy sends the very same object again.
        cause = Cause.RETRY if getattr(request, "was_sent", False) else _cause.get()
        request.was_sent = True  # type: ignore[attr-defined]  # a mark of our own on the SDK's object
        try:
            response: HttpResponse = super().send(request, **options)
        except BaseException:
            self._count(request, cause)
            raise
        lost = response.status_code in CONFLICTS and cause is not Cause.RETRY
        self._count(request, Cause.CONFLICT if lost else cause)
        return response

    def _count(self, request: HttpRequest, cause: Cause) -> None:
        for tally in (self._tally, *_tallies.get()):
            tally.add(self._service, request.method, cause)


def _unchanged(request: Any) -> Any:
    return request
