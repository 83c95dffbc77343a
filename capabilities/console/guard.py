"""The rules that a browser gets with each page, and the requests that are refused before a page sees them."""

import hmac
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from werkzeug.exceptions import Forbidden, MisdirectedRequest
from werkzeug.wrappers import Request, Response

#: No script and no style but the console's own files, no frame, and no markup made of text by a script.
_POLICY: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Content-Security-Policy": "; ".join(_POLICY),
        # Not `no-referrer`: with it, a browser sends `Origin: null` with the console's own forms.
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        "Cache-Control": "no-store",
    }
)
#: Methods that change nothing.
READS: Final = frozenset({"GET", "HEAD"})


def protect(response: Response) -> Response:
    """Add the headers of every reply. A file that never changes keeps its own rule for caches."""
    for name, value in HEADERS.items():
        if name not in response.headers:
            response.headers[name] = value
    return response


def check_host(request: Request, expected: str) -> None:
    """Refuse a request that was sent to another name: a foreign page whose name was made to lead here."""
    if request.host != expected:
        raise MisdirectedRequest(f"this server answers at {expected} only")


def check_origin(request: Request, expected: str) -> None:
    """Refuse an act that does not come from one of the console's own pages. The scheme and the port count too."""
    site = request.headers.get("Sec-Fetch-Site")
    if request.headers.get("Origin") != expected or site not in {None, "same-origin"}:
        raise Forbidden("this act was not sent by a page of this console, so nothing was done")


def is_same(given: str | None, expected: str) -> bool:
    """Compare two secrets in a time that does not depend on where they differ."""
    return given is not None and hmac.compare_digest(given.encode(), expected.encode())
