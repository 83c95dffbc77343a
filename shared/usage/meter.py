"""Counts every storage request below the SDK's retry policy and every bus operation: of which kind, and why.

A retry and a lost race are requests on the bill like any other, so the count sits in the transport, the last place
that every attempt passes. What the caller alone can know, that a request was idle or part of a sweep, it says with
`because` or `looking`; retries and conflicts are seen here. The bus has no such place, so whoever sends, receives or
settles there says so with `count_bus`.
"""

from enum import StrEnum
from typing import Any, Final

from azure.core.pipeline.transport import HttpRequest, HttpResponse, RequestsTransport
from requests import Session

from shared.signed_session import OPEN_CONNECTIONS, SignedSession
from shared.usage.requests import BUS, Kind, identify
from shared.usage.tally import Cause, Tally, because, count, current_cause, looking, tallied

__all__ = ["BusOperation", "Cause", "Meter", "Tally", "because", "current_cause", "looking", "tallied"]

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
        self.tally = Tally()
        self._namespace = namespace

    def transport(self, service: str, **options: Any) -> RequestsTransport:
        """Return the transport of one client of this service."""
        return _CountingTransport(self.tally, service, **options)

    def count_bus(self, operation: BusOperation, entity: str, number: int = 1) -> None:
        """Count operations on a queue or a topic of the bus, one for each message; say it before they are tried."""
        cause = Cause.IDLE if operation is BusOperation.RECEIVE_EMPTY else current_cause()
        count(self.tally, Kind(self._namespace, BUS, entity, operation.value), cause, number)


class _CountingTransport(RequestsTransport):  # type: ignore[misc]  # the SDK imports it lazily, untyped
    def __init__(self, tally: Tally, service: str, **options: Any) -> None:
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
        session.auth = _unchanged

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


def _unchanged(request: Any) -> Any:
    return request
