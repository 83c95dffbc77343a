"""HTTP requests and responses in the form that the worker sees, with the real host's quirks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie

from aiohttp import web
from azure.functions.meta import Datum
from multidict import CIMultiDict

#: The server sets these from the body it sends.
_SERVER_HEADERS = frozenset({"content-length", "transfer-encoding"})


def _texts(values: Mapping[str, str]) -> dict[str, Datum]:
    return {name: Datum(value, "string") for name, value in values.items()}


def joined(pairs: Iterable[tuple[str, str]], *, lower: bool) -> dict[str, str]:
    """Return one value per name. Several are joined by a comma."""
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name.lower() if lower else name, []).append(value)
    return {name: ",".join(several) for name, several in values.items()}


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as it came in."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


def request_datum(request: Incoming, parameters: Mapping[str, str]) -> Datum:
    """Return the trigger value: header names lower-case, query parameters without a value dropped, a body of bytes."""
    headers = joined(request.headers, lower=True)
    query = {name: value for name, value in joined(request.query, lower=False).items() if value}
    # A chunked request has no length, and the host sends its body as empty.
    body = request.body if int(headers.get("content-length", "0")) > 0 else b""
    return Datum(
        {
            "method": Datum(request.method, "string"),
            "url": Datum(request.url, "string"),
            "headers": _texts(headers),
            "query": _texts(query),
            "params": _texts(parameters),
            "body": Datum(body, "bytes"),
        },
        "http",
    )


def response(value: Datum | None) -> web.Response:
    """Return the function's answer. No value at all is an empty answer."""
    if value is None:
        return web.Response(status=204)
    if value.type != "http":
        content = value.value if isinstance(value.value, bytes) else str(value.value).encode()
        return web.Response(body=content, content_type="text/plain", charset="utf-8")
    parts = value.value
    headers = CIMultiDict((n, h.value) for n, h in parts["headers"].items() if n.lower() not in _SERVER_HEADERS)
    for cookie in parts["cookies"] or ():
        _add_cookie(headers, cookie)
    return web.Response(status=int(parts["status_code"].value), body=parts["body"].value, headers=headers)


def _add_cookie(headers: CIMultiDict[str], cookie: SimpleCookie) -> None:
    for morsel in cookie.values():
        headers.add("Set-Cookie", morsel.OutputString())
