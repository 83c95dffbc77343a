"""The console as a function of the app: a request to WSGI's environment, and the reply back.

Not the library's own middleware: it encodes paths twice, empties each page of a status from 500 on, and after one line on
`wsgi.errors` it fails every later request.
"""

import re
from collections.abc import Iterable
from io import BytesIO, StringIO
from typing import Any, Final
from urllib.parse import unquote_to_bytes, urlsplit

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wrappers import Response

from capabilities.console.app import Application, show_refusal
from capabilities.console.azure_login import AzureLogin
from capabilities.console.guard import protect
from capabilities.console.visit import build_view
from shared.app import Stores
from shared.capability import HttpAnswer, HttpCall
from shared.settings import Settings

#: Where the function answers: the host's prefix, and the route in `capabilities/console`.
ROOT: Final = "/api/console"
#: Bytes of a reply. A function replies as a whole, from memory.
MOST_REPLY: Final = 32 * 1024 * 1024
#: Without underscores. In WSGI, `X_A` and `X-A` are one name, and Azure's login guards the second alone.
_HEADER: Final = re.compile(r"[A-Za-z0-9-]+")


def send(application: Application, call: HttpCall) -> HttpAnswer:
    """Hand a request to the application, and return its reply."""
    try:
        environ = make_environ(call)
    except ValueError:
        # The name of the host is no name.
        return HttpAnswer(400, b"", {})
    status, headers, body = _call(application, environ)
    return HttpAnswer(status, body, headers)


def make_environ(call: HttpCall) -> dict[str, Any]:
    """Return a request as WSGI has it: the path decoded once, and each text as bytes in Latin-1."""
    url, body = urlsplit(call.url), call.body
    path = unquote_to_bytes(url.path).decode("latin-1")
    sent = {name: value for name, value in call.headers.items() if _HEADER.fullmatch(name)}
    headers = {f"HTTP_{name.upper().replace('-', '_')}": _as_wsgi(value) for name, value in sent.items()}
    # Azure ends TLS before the app, and says so in this header.
    is_safe = url.scheme == "https" or headers.get("HTTP_X_FORWARDED_PROTO") == "https"
    return {
        **headers,
        "HTTP_HOST": _as_wsgi(url.netloc),
        "REQUEST_METHOD": call.method,
        "SCRIPT_NAME": ROOT,
        "PATH_INFO": path[len(ROOT) :] or "/",
        "QUERY_STRING": _as_wsgi(url.query),
        "CONTENT_TYPE": headers.get("HTTP_CONTENT_TYPE", ""),
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_NAME": "sluice",
        "SERVER_PORT": "443" if is_safe else "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https" if is_safe else "http",
        "wsgi.input": BytesIO(body),
        "wsgi.errors": StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }


def build_application(stores: Stores, settings: Settings) -> Application:
    """Return the pages of an app, behind Azure's login."""
    return Application(build_view(stores, settings), AzureLogin())


def _call(application: Application, environ: dict[str, Any]) -> tuple[int, list[tuple[str, str]], bytes]:
    begun: list[tuple[str, list[tuple[str, str]]]] = []

    def start(status: str, headers: list[tuple[str, str]], _error: Any = None) -> Any:
        begun.append((status, headers))

    body = _join(application(environ, start))
    if body is None:
        response = _refuse_large(environ)
        body, begun = response.get_data(), [(response.status, list(response.headers))]
    ((status, headers),) = begun
    return int(status.split()[0]), headers, body


def _join(parts: Iterable[bytes]) -> bytes | None:
    """Return the whole reply, or None if it is too large."""
    whole, length = [], 0
    for part in parts:
        length += len(part)
        if length > MOST_REPLY:
            return None
        whole.append(part)
    return b"".join(whole)


def _refuse_large(environ: dict[str, Any]) -> Response:
    page = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
    said = f"this page has more than {MOST_REPLY >> 20} MiB, which a function cannot send: `sluice web --open '{page}'` can"
    return protect(show_refusal(environ, RequestEntityTooLarge(said)))


def _as_wsgi(text: str) -> str:
    return text.encode(errors="replace").decode("latin-1")
