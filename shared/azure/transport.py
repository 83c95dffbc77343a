"""HTTP below the storage libraries: whole replies, one error if a service does not answer, and a lean session.

Above them, the put of a message that stays on its queue until it is taken.

The session of `requests` prepares each request once more, although it arrives complete and signed. It searches for a
login, for cookies, and for the environment's proxies and certificates. It composes the address again, and finds its
connections by all of these. That is a large part of a chunk's CPU time (docs/performance.md), so `SignedSession`
skips it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import urlsplit

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    IncompleteReadError,
    ServiceResponseError,
)
from azure.core.pipeline.transport import HttpTransport
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers
from urllib3 import HTTPConnectionPool, HTTPResponse, Retry

from shared.errors import StorageUnavailableError

if TYPE_CHECKING:
    from azure.storage.queue import QueueMessage, QueueServiceClient

#: Answers of a service that wants another login, or a role that this login does not have.
_REFUSED_LOGIN: Final = frozenset({401, 403})


class WholeReplies(HttpTransport[Any, Any]):
    """A transport that treats a truncated reply as a missing one.

    The table library takes the error of a truncated reply for a refusal. It then fails with an AttributeError, because
    there is no reply, and no caller expects that error. It also reads the reply to a transaction only after the
    transport has returned. There, a truncated reply raises an error of the connection's library. Only the blob library
    handles that, so only blobs are read in pieces.
    """

    def __init__(
        self,
        transport: HttpTransport[Any, Any],
        on_reply: Callable[[Any], object] | None = None,
        *,
        in_pieces: bool = True,
    ) -> None:
        """Wrap the transport. `on_reply` gets every reply, also those that the library's retry policy handles."""
        self._transport, self._on_reply, self._in_pieces = transport, on_reply, in_pieces

    def send(self, request: Any, **options: Any) -> Any:
        """Send, and return a whole reply, or a blob's reply that is still to be read."""
        if not self._in_pieces:
            options["stream"] = False
        try:
            reply = self._transport.send(request, **options)
        except IncompleteReadError as error:
            raise ServiceResponseError(f"the reply to {request.method} was truncated", error=error) from error
        if self._on_reply is not None:
            self._on_reply(reply)
        return reply

    def open(self) -> None:
        """Open the connections."""
        self._transport.open()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._transport.__exit__(kind, error, trace)


class PlainTransport(WholeReplies):
    """A transport without TLS: the administration's client knows no other address than one of HTTPS."""

    def send(self, request: Any, **options: Any) -> Any:
        """Send to the same place, in plain HTTP."""
        request.url = request.url.replace("https://", "http://", 1)
        return super().send(request, **options)


def date_of(reply: Any) -> datetime | None:
    """Return the reply's own time in whole seconds, from its header Date, or None without a valid one."""
    text = reply.http_response.headers.get("Date")
    try:
        moment = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment else None


@contextmanager
def expecting_an_answer(tried: str) -> Iterator[None]:
    """Turn the library's failures into StorageUnavailableError. Handle expected refusals inside the block."""
    try:
        yield
    except AzureError as error:
        check = "whether you are logged in and have the role" if is_refused(error) else "the storage account"
        raise StorageUnavailableError(
            f"could not {tried}: {error_code(error)}; check {check}, then try again"
        ) from error


#: Azure drops a queue message after seven days unless this value is sent with it.
NEVER_EXPIRES: Final = -1


def put_on(queues: "QueueServiceClient", queue: str, message: str, *, tried: str = "") -> datetime:
    """Put a message on a storage queue, and return when storage inserted it. It never expires there."""
    # By storage's own clock, as the front of the queue names it. The library's types do not say that it always does.
    return cast("datetime", send_on(queues, queue, message, tried=tried).inserted_on)


def send_on(queues: "QueueServiceClient", queue: str, message: str, *, tried: str = "") -> "QueueMessage":
    """Put a message on a storage queue, and return it with its receipt. It never expires there."""
    with expecting_an_answer(tried or f"put a message on queue {queue!r}"):
        # Not closed: it shares the connections of the service client.
        return queues.get_queue_client(queue).send_message(message, time_to_live=NEVER_EXPIRES)


def error_code(error: AzureError) -> str:
    """Return the service's own code of a refusal, which the libraries set without declaring it, or the error's name."""
    code = getattr(error, "error_code", None) or type(error).__name__
    return str(getattr(code, "value", code))


def is_refused(error: AzureError) -> bool:
    """Check whether the service answered, but refused this login."""
    return isinstance(error, ClientAuthenticationError) or getattr(error, "status_code", None) in _REFUSED_LOGIN


#: Connections kept open per service: as many as a worker process has calls at once, or a dispatch has puts.
#: By default ten are kept, and an eleventh thread opens a new connection for each request.
OPEN_CONNECTIONS: Final = 64
#: The storage library retries, and counts and logs its retries.
_NEVER: Final = Retry(total=False, redirect=False, raise_on_status=False)


class SignedSession(Session):
    """A session that sends a request unchanged, for one client with fixed certificates and without a proxy."""

    def __init__(self) -> None:
        super().__init__()
        self._usual = dict(self.headers)
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(OPEN_CONNECTIONS, OPEN_CONNECTIONS, _NEVER))

    def request(  # type: ignore[override]  # only the arguments of the storage library's transport
        self, method: str, url: str, *, headers: Any, data: Any, stream: bool = False, **options: Any
    ) -> Response:
        """Send one request. Read the body of the reply, unless it is streamed."""
        prepared = PreparedRequest()
        prepared.method, prepared.url = method, url
        prepared.headers = CaseInsensitiveDict({**self._usual, **headers})
        prepared.prepare_body(data, None)
        response = self.get_adapter(url).send(
            prepared, stream, options["timeout"], options["verify"], options["cert"], proxies=None
        )
        if not stream:
            # Reads the body: a truncated one raises its error here, where the transport expects it.
            _ = response.content
        return response


class _Adapter(HTTPAdapter):
    def __init__(self, *sizes: Any) -> None:
        self._pools: dict[tuple[str, str], HTTPConnectionPool] = {}
        super().__init__(*sizes)

    def get_connection_with_tls_context(self, request: PreparedRequest, *options: Any, **named: Any) -> Any:
        address = urlsplit(request.url or "")
        key = str(address.scheme), str(address.netloc)
        if key not in self._pools:
            self._pools[key] = super().get_connection_with_tls_context(request, *options, **named)
        return self._pools[key]

    def build_response(self, req: PreparedRequest, resp: HTTPResponse) -> Response:
        response = Response()
        response.status_code, response.reason, response.raw = resp.status, resp.reason or "", resp
        response.headers = CaseInsensitiveDict(resp.headers)
        response.encoding = get_encoding_from_headers(response.headers)
        response.url, response.request = str(req.url), req
        return response

    def close(self) -> None:
        self._pools.clear()
        super().close()
