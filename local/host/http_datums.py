"""HTTP requests and responses in the form that the worker sees, with the real host's quirks."""

from collections.abc import Iterable, Mapping
from http.cookies import SimpleCookie

from aiohttp import web
from azure.functions.meta import Datum
from multidict import CIMultiDict

#: The server sets these from the body it sends.
_SERVER_HEADERS = frozenset({"content-length", "transfer-encoding"})


def _texts(values: Mapping[str, str]) -> dict[str, Datum]:
    return {name: Datum(value, "string") for name, value in values.items()}


def joined(pairs: Iterable[tuple[str, str]], *, lower: bool) -> dict[str, str]:
    """Return one value per name; several are joined by a comma."""
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name.lower() if lower else name, []).append(value)
    return {name: ",".join(several) for name, several in values.items()}


def request_datum(
    method: str,
    url: str,
    headers: Iterable[tuple[str, str]],
    query: Iterable[tuple[str, str]],
    parameters: Mapping[str, str],
    body: bytes,
) -> Datum:
    """Return the trigger value: header names lower-case, query parameters without a value dropped, a body of bytes."""
    lower_headers = joined(headers, lower=True)
    has_length = int(lower_headers.get("content-length", "0")) > 0
    return Datum(
        {
            "method": Datum(method, "string"),
            "url": Datum(url, "string"),
            "headers": _texts(lower_headers),
            "query": _texts({name: value for name, value in joined(query, lower=False).items() if value}),
            "params": _texts(parameters),
            # A chunked request has no length, and the host sends its body as empty.
            "body": Datum(body if has_length else b"", "bytes"),
        },
        "http",
    )


def response(value: Datum | None) -> web.Response:
    """Return what the function answered; no value at all is an empty answer."""
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
