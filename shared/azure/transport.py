"""What becomes of a storage service that does not answer: one error that says what was tried.

The HTTP session below the storage libraries: for requests that are complete and signed when they come here.

The session of `requests` makes each request ready once more: it looks for a login, for cookies, for the environment's
proxies and certificates, puts the address together anew, and looks its connections up by all of these. It does so at
each storage request, whose CPU is much of what a chunk costs (docs/performance.md).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError, ClientAuthenticationError, IncompleteReadError, ServiceResponseError
from azure.core.pipeline.transport import HttpTransport
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers
from urllib3 import HTTPConnectionPool, HTTPResponse, Retry

from shared.errors import StorageUnavailableError

#: Answers of a service that wants another login, or a role that this one does not have.
_NOT_YOU: Final = frozenset({401, 403})


class WholeReplies(HttpTransport[Any, Any]):
    """Passes on to a transport; a reply that ends in its middle is one that did not come.

    The table library takes such an error for a refusal, looks for the reply that it has not, and fails with an
    AttributeError, which nobody who handles its errors expects. And it reads the reply to a transaction only after
    the transport has returned, where the end in the middle is an error of the connection's library; so only blobs,
    whose library expects that, are left to be read in pieces.
    """

    def __init__(
        self, transport: HttpTransport[Any, Any], look: Callable[[Any], object] | None = None, *, in_pieces: bool = True
    ) -> None:
        """Pass on to the transport; `look` sees every reply, also those that the library's retry policy takes."""
        self._transport, self._look, self._in_pieces = transport, look or _look_away, in_pieces

    def send(self, request: Any, **options: Any) -> Any:
        """Send, and return a reply that is whole, or a blob's that is still to be read."""
        if not self._in_pieces:
            options["stream"] = False
        try:
            reply = self._transport.send(request, **options)
        except IncompleteReadError as error:
            raise ServiceResponseError(f"the reply to {request.method} ended in its middle", error=error) from error
        self._look(reply)
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


def date_of(reply: Any) -> datetime | None:
    """Return the time at which a service says that it made this reply, in whole seconds; None where it does not say."""
    said = reply.http_response.headers.get("Date")
    try:
        moment = parsedate_to_datetime(said) if said else None
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment else None


def _look_away(_reply: Any) -> None:
    """See nothing."""


@contextmanager
def expecting_an_answer(tried: str) -> Iterator[None]:
    """Turn the library's failures into StorageUnavailableError; handle expected refusals inside the block."""
    try:
        yield
    except AzureError as error:
        code = getattr(error, "error_code", None)
        reason = getattr(code, "value", code) or type(error).__name__
        check = "whether you are logged in and have the role" if is_refused(error) else "the storage account"
        raise StorageUnavailableError(f"could not {tried}: {reason}; check {check}, then try again") from error


def is_refused(error: AzureError) -> bool:
    """Whether the service answered, but not to this login."""
    return isinstance(error, ClientAuthenticationError) or getattr(error, "status_code", None) in _NOT_YOU


#: Connections that are kept open to a service: as many as a worker process has calls that run, or a dispatch has puts.
#: By default ten are kept: whoever is the eleventh connects anew, for each request.
OPEN_CONNECTIONS: Final = 64
#: Repeating is the storage library's business, which counts and tells of it.
_NEVER: Final = Retry(total=False, redirect=False, raise_on_status=False)


class SignedSession(Session):
    """Sends what it is given as it is; of one client, whose certificates are always the same, and for no proxy."""

    def __init__(self) -> None:
        super().__init__()
        self._usual = dict(self.headers)
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(OPEN_CONNECTIONS, OPEN_CONNECTIONS, _NEVER))

    def request(  # type: ignore[override]  # what the storage library's transport gives, and nothing else
        self, method: str, url: str, *, headers: Any, data: Any, stream: bool = False, **options: Any
    ) -> Response:
        """Send one request; the reply's body is read unless it is to be streamed."""
        prepared = PreparedRequest()
        prepared.method, prepared.url = method, url
        prepared.headers = CaseInsensitiveDict({**self._usual, **headers})
        prepared.prepare_body(data, None)
        response = self.get_adapter(url).send(
            prepared, stream, options["timeout"], options["verify"], options["cert"], proxies=None
        )
        if not stream:
            # Reads it; an end in its middle shows here, where the transport expects it.
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
