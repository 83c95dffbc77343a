"""HTTP requests and responses in the form that the worker sees, with the real host's quirks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import format_datetime, parsedate_to_datetime
from http.cookies import Morsel, SimpleCookie
from urllib.parse import quote

from aiohttp import web
from azure.functions.meta import Datum
from multidict import CIMultiDict

#: What .NET leaves as it is in a cookie's value, beside letters and digits.
_UNESCAPED = "-_.~"
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


def response(value: Datum | None, *, has_out: bool = False) -> web.Response:
    """Return the function's answer. No value at all is an empty one, with success where an `Out` could have had it."""
    if value is None:
        return web.Response(status=200 if has_out else 204)
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
        headers.add("Set-Cookie", _cookie_text(morsel))


def _cookie_text(morsel: "Morsel[str]") -> str:
    """Return a cookie as ASP.NET writes it: its value escaped, its attributes in an order of their own."""
    parts = [f"{morsel.key}={quote(morsel.value, safe=_UNESCAPED)}"]
    # The library's parser lets only dates in GMT through, in two spellings.
    expires = morsel["expires"] and format_datetime(parsedate_to_datetime(morsel["expires"]), usegmt=True)
    named = {"expires": expires, **{name: morsel[name] for name in ("max-age", "domain", "path")}}
    parts += [f"{name}={value}" for name, value in named.items() if value]
    parts += ["secure"] if morsel["secure"] else []
    parts += [f"samesite={morsel['samesite'].lower()}"] if morsel["samesite"] else []
    parts += ["httponly"] if morsel["httponly"] else []
    return "; ".join(parts)
