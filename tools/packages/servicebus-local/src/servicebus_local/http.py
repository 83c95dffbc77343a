"""HTTP/1.1 as far as an administration client and the opening of a WebSocket need it."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, urlsplit

#: Where clients open a WebSocket for AMQP; a custom endpoint may leave the path out.
WEBSOCKET_PATHS = frozenset({"/$servicebus/websocket", "/", ""})


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str]
    #: By their names in small letters.
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_upgrade(self) -> bool:
        """Return true if the connection is to become a WebSocket."""
        upgrade = self.headers.get("upgrade", "").lower()
        return upgrade == "websocket" and self.path in WEBSOCKET_PATHS and "sec-websocket-key" in self.headers


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply in XML."""

    status: int
    body: str


def request_from(received: bytes) -> tuple[Request, bytes] | None:
    """Return the first whole request and what follows it. None while there is more to come."""
    head, ended, rest = received.partition(b"\r\n\r\n")
    if not ended:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = headers.get("content-length", "0")
    size = int(length) if length.isdecimal() else 0
    if len(rest) < size:
        return None
    method, target, *_ = (*first.split(" "), "/", "/")
    parts = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return Request(method, unquote(parts.path), query, headers, rest[:size]), rest[size:]


def answered(answer: Answer) -> bytes:
    """Return a reply as bytes."""
    body = answer.body.encode()
    head = (
        f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n"
        f"Content-Type: application/xml; charset=utf-8\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
