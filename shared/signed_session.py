"""The HTTP session below the storage libraries: for requests that are complete and signed when they come here.

The session of `requests` makes each request ready once more: it looks for a login, for cookies, for the environment's
proxies and certificates, puts the address together anew, and looks its connections up by all of these. It does so at
each storage request, whose CPU is much of what a chunk costs (docs/performance.md).
"""

from typing import Any, Final
from urllib.parse import urlsplit

from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers
from urllib3 import HTTPConnectionPool, HTTPResponse, Retry

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
