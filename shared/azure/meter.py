"""Counts every storage request below the SDK's retry policy and every bus operation, by kind and cause.

Azure bills a retry and a lost race like any other request. So the count sits in the transport, the last place that
every attempt passes, where it sees retries and conflicts. Only the caller knows that a request is idle or part of a
sweep, and declares it with `because` or `looking`. The bus has no such place: its callers use `count_bus`.

Each count goes to the tally of the process, and to each tally that a caller has opened with `tally_requests`.

The operation, the entity and the billing meter of a storage request, derived from its method and address.

The operations have the names of Azure's own metrics and logs, so that both can be compared.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from threading import Lock
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from azure.core.pipeline.transport import HttpRequest, HttpResponse, RequestsTransport
from requests import Session

from shared.azure.transport import OPEN_CONNECTIONS, SignedSession

BLOB, QUEUE, TABLE, BUS = "blob", "queue", "table", "bus"


class RequestKind(NamedTuple):
    """One kind of request: the billed account, the service, the queue, container, table or topic, and the operation."""

    account: str
    service: str
    entity: str
    operation: str


#: (method, names in the path, `comp` of the query) -> operation.
_BLOB: Final[Mapping[tuple[str, int, str], str]] = MappingProxyType(
    {
        ("GET", 0, "list"): "ListContainers",
        ("GET", 1, "list"): "ListBlobs",
        ("GET", 1, ""): "GetContainerProperties",
        ("HEAD", 1, ""): "GetContainerProperties",
        ("PUT", 1, ""): "CreateContainer",
        ("DELETE", 1, ""): "DeleteContainer",
        ("POST", 1, "batch"): "DeleteBlobs",
        ("GET", 2, ""): "GetBlob",
        ("HEAD", 2, ""): "GetBlobProperties",
        ("PUT", 2, ""): "PutBlob",
        ("DELETE", 2, ""): "DeleteBlob",
        ("PUT", 2, "block"): "PutBlock",
        ("PUT", 2, "blocklist"): "PutBlockList",
        ("GET", 2, "blocklist"): "GetBlockList",
        ("PUT", 2, "appendblock"): "AppendBlock",
        ("PUT", 2, "lease"): "LeaseBlob",
        ("PUT", 2, "metadata"): "SetBlobMetadata",
        ("PUT", 2, "properties"): "SetBlobProperties",
    }
)
_QUEUE: Final[Mapping[tuple[str, int, str], str]] = MappingProxyType(
    {
        ("GET", 0, "list"): "ListQueues",
        ("PUT", 1, ""): "CreateQueue",
        ("DELETE", 1, ""): "DeleteQueue",
        ("GET", 1, "metadata"): "GetQueueMetadata",
        ("HEAD", 1, "metadata"): "GetQueueMetadata",
        ("PUT", 1, "metadata"): "SetQueueMetadata",
        ("POST", 2, ""): "PutMessage",
        ("GET", 2, ""): "GetMessages",
        ("DELETE", 2, ""): "ClearMessages",
        ("PUT", 3, ""): "UpdateMessage",
        ("DELETE", 3, ""): "DeleteMessage",
    }
)
#: Operations on one entity. A whole table and a batch are recognized by their path.
_TABLE: Final[Mapping[str, str]] = MappingProxyType(
    {"GET": "QueryEntity", "PUT": "UpdateEntity", "PATCH": "MergeEntity", "DELETE": "DeleteEntity"}
)
_TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {"GET": "QueryTables", "POST": "CreateTable", "DELETE": "DeleteTable"}
)


def identify(service: str, method: str, url: str, body: object = None) -> RequestKind:
    """Derive the kind of a request. Only the body of a batch of entities names its table."""
    address, _, query = url.partition("?")
    _, _, host, *names = address.rstrip("/").split("/")
    account, _, domain = host.partition(".")
    # The emulators have one host for all accounts, with the account as the first name of the path.
    if not domain.startswith(service):
        account = names.pop(0) if names else ""
    if service == TABLE:
        return RequestKind(account, service, *_table(method, names[0] if names else "", body))
    comp = query.partition("comp=")[2].partition("&")[0]
    depth, known = (min(len(names), 2), _BLOB) if service == BLOB else (len(names), _QUEUE)
    entity = names[0] if names else ""
    operation = known.get((method, depth, comp)) or f"{method} {comp}".strip()
    return RequestKind(account, service, entity, "PeekMessages" if "peekonly=true" in query else operation)


def _table(method: str, name: str, body: object) -> tuple[str, str]:
    table, parenthesis, key = name.partition("(")
    if table == "$batch":
        return _table_of_batch(body), "EntityGroupTransaction"
    if table == "Tables":
        return key.strip("')"), _TABLES.get(method, method)
    if method == "POST":
        return table, "InsertEntity"
    whole = not parenthesis or key == ")"
    return table, "QueryEntities" if whole and method == "GET" else _TABLE.get(method, method)


def _table_of_batch(body: object) -> str:
    """Return the table of the first operation. A transaction has only one table."""
    text = body[:2000] if isinstance(body, bytes) else b""
    address = text.partition(b" http")[2].partition(b" HTTP/")[0]
    return address.rpartition(b"/")[2].partition(b"(")[0].decode(errors="replace")


#: The billing meter of each operation on blobs. All others are "other".
_BLOB_METERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PutBlob": "blob-write",
        "PutBlock": "blob-write",
        "PutBlockList": "blob-write",
        "AppendBlock": "blob-write",
        "GetBlob": "blob-read",
        "ListBlobs": "blob-list",
        "ListContainers": "blob-list",
        "CreateContainer": "blob-list",
        "DeleteBlob": "blob-delete",
        "DeleteContainer": "blob-delete",
    }
)


class Charge(NamedTuple):
    """The billing meter of requests, and their cause."""

    meter: str
    cause: str

    def __str__(self) -> str:
        return f"{self.meter} {self.cause}"

    @classmethod
    def parse(cls, text: str) -> "Charge":
        """Read the text of a row. Rows of the first version have the cause alone."""
        meter, _, cause = text.rpartition(" ")
        return cls(meter, cause)


def meter_of(kind: RequestKind) -> str:
    """Return the billing meter of a kind of request."""
    return _BLOB_METERS.get(kind.operation, "blob-other") if kind.service == BLOB else kind.service


#: An address that no rule for proxies names: it shows whether the environment sets proxies or certificates.
_ANYWHERE: Final = "https://storage.invalid"
#: The answers to a lost conditional write.
CONFLICTS = frozenset({409, 412})


class BusOperation(StrEnum):
    """The billed operations of the bus. Each counts once per message, however many messages a transfer has."""

    SEND = "send"
    RECEIVE = "receive"
    #: A receive that ended without a message.
    RECEIVE_EMPTY = "receive-empty"
    COMPLETE = "complete"
    ABANDON = "abandon"
    DEAD_LETTER = "dead-letter"
    RENEW = "renew"
    PEEK = "peek"


class Cause(StrEnum):
    """Why a request was made."""

    #: It moved a job on.
    USEFUL = "useful"
    #: It found nothing to do.
    IDLE = "idle"
    #: The SDK sent it again after a failure.
    RETRY = "retry"
    #: It lost a conditional write to another writer.
    CONFLICT = "conflict"
    #: The tick searched for unfinished work.
    SWEEP = "sweep"


class CountedRequest(NamedTuple):
    """The key of a count: a kind of request, and its cause."""

    kind: RequestKind
    cause: Cause


class RequestTally:
    """Requests by kind and cause. Several threads may use it."""

    def __init__(self) -> None:
        self._counts: Counter[CountedRequest] = Counter()
        self._lock = Lock()

    def add(self, kind: RequestKind, cause: Cause, number: int = 1) -> None:
        """Add to the count of a kind and cause."""
        counted = CountedRequest(kind, cause)
        with self._lock:
            self._counts[counted] += number

    def counts(self) -> Counter[CountedRequest]:
        """Return a copy of the counts so far."""
        with self._lock:
            return Counter(self._counts)

    def total(self) -> int:
        """Return the number of all requests so far."""
        return self.counts().total()


class Meter:
    """The count of one process. Every storage client gets a `transport` of it."""

    def __init__(self, namespace: str = "") -> None:
        self.tally = RequestTally()
        self._namespace = namespace

    def transport(self, service: str, **options: Any) -> RequestsTransport:
        """Build the transport of one client of this service."""
        return _CountingTransport(self.tally, service, **options)

    def count_bus(self, operation: BusOperation, entity: str, number: int = 1) -> None:
        """Count operations on a queue or a topic of the bus, one per message. Call it before they are tried."""
        cause = Cause.IDLE if operation is BusOperation.RECEIVE_EMPTY else current_cause()
        count(self.tally, RequestKind(self._namespace, BUS, entity, operation.value), cause, number)


class _CountingTransport(RequestsTransport):  # type: ignore[misc]  # the SDK imports it lazily, untyped
    def __init__(self, tally: RequestTally, service: str, **options: Any) -> None:
        # Read the environment once. Reading it at each request takes a tenth of the request's CPU.
        environment = Session().merge_environment_settings(_ANYWHERE, {}, stream=None, verify=True, cert=None)
        # A proxy serves some hosts only. Where there is one, each request reads the environment.
        session = {} if environment["proxies"] else {"session": SignedSession()}
        super().__init__(**{"connection_verify": environment["verify"], **session, **options})
        self._tally, self._service = tally, service

    def _init_session(self, session: Any) -> None:
        super()._init_session(session)
        for scheme in ("http://", "https://"):
            session.get_adapter(scheme).init_poolmanager(OPEN_CONNECTIONS, OPEN_CONNECTIONS)
        # Without this, the session searches for a .netrc file at each request, which the SDK has already signed.
        session.auth = _keep_login

    def send(self, request: HttpRequest, **options: Any) -> HttpResponse:
        """Send, and count also a request without a reply: it may have been executed, and it is billed."""
        # The retry policy sends the same object again.
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


def _keep_login(request: Any) -> Any:
    return request


class PollTally:
    """One search for work. Its requests are useful if it found some, and idle otherwise."""

    def __init__(self) -> None:
        self.has_found = False
        self._held: list[tuple[RequestTally, RequestKind, int]] = []

    def hold(self, tally: RequestTally, kind: RequestKind, number: int) -> None:
        """Hold a count back until the search has ended."""
        self._held.append((tally, kind, number))

    def settle(self) -> None:
        """Count the requests that were held back."""
        cause = Cause.USEFUL if self.has_found else Cause.IDLE
        for tally, kind, number in self._held:
            tally.add(kind, cause, number)


_cause: Final[ContextVar[Cause]] = ContextVar("cause", default=Cause.USEFUL)
_tallies: Final[ContextVar[tuple[RequestTally, ...]]] = ContextVar("tallies", default=())
_poll: Final[ContextVar[PollTally | None]] = ContextVar("poll", default=None)


@contextmanager
def because(cause: Cause) -> Iterator[None]:
    """Declare the cause of the requests made inside. Threads need their caller's context (`copy_context().run`)."""
    token = _cause.set(cause)
    try:
        yield
    finally:
        _cause.reset(token)


@contextmanager
def looking() -> Iterator[PollTally]:
    """Declare that the requests made inside search for work. Set `has_found` on the yielded tally if there is some."""
    poll = PollTally()
    token = _poll.set(poll)
    try:
        yield poll
    finally:
        _poll.reset(token)
        poll.settle()


@contextmanager
def tally_requests() -> Iterator[RequestTally]:
    """Count the requests made inside, besides the meter's own count. It may be nested."""
    tally = RequestTally()
    token = _tallies.set((*_tallies.get(), tally))
    try:
        yield tally
    finally:
        _tallies.reset(token)


def current_cause() -> Cause:
    """Return the cause of the requests made now."""
    return _cause.get()


def count(own: RequestTally, kind: RequestKind, cause: Cause, number: int = 1) -> None:
    """Count in the tally of the process and in every tally that a caller has opened around this."""
    poll = _poll.get() if cause is Cause.USEFUL else None
    for tally in (own, *_tallies.get()):
        if poll is None:
            tally.add(kind, cause, number)
        else:
            poll.hold(tally, kind, number)


RequestCounts: TypeAlias = Mapping[Charge, int]


def usage_of(tally: RequestTally) -> RequestCounts:
    """Return the counts of a tally by billing meter and cause."""
    return usage_of_counts(tally.counts())


def usage_of_counts(counts: Mapping[CountedRequest, int]) -> RequestCounts:
    """Add up counts by billing meter and cause."""
    found: Counter[Charge] = Counter()
    for (kind, cause), number in counts.items():
        found[Charge(meter_of(kind), cause.value)] += number
    return found


def charges(tally: RequestTally) -> dict[str, int]:
    """Return the counts of a tally in the form that messages and rows store."""
    return {str(charge): number for charge, number in usage_of(tally).items()}
