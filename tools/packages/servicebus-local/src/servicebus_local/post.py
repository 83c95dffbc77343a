"""A message that comes by one HTTP request, `POST /<queue or topic>/messages`: its body, and a header for each property."""

import json
from collections.abc import Mapping

from servicebus_local import wire
from servicebus_local.http import Request
from servicebus_local.refusal import not_implemented

#: What the path has behind the entity.
_MESSAGES = "/messages"


def addressee(request: Request) -> str | None:
    """Return the queue or topic that a request sends to. None: it sends no message."""
    path = request.path.strip("/")
    is_send = request.method == "POST" and path.lower().endswith(_MESSAGES)
    return path[: -len(_MESSAGES)] if is_send else None


def encoded(request: Request) -> bytes:
    """Return the message of a request, as a client of AMQP would have encoded it."""
    if "brokerproperties" in request.headers:
        raise not_implemented("the header BrokerProperties")
    said = properties_of(request.headers)
    kind = request.headers.get("content-type")
    content_type = wire.NULL if kind is None else wire.symbol(kind)
    properties = [*[wire.NULL] * 6, content_type]
    return (
        wire.section(wire.PROPERTIES, 0xD0, len(properties), b"".join(properties))
        + _application(said)
        + wire.data(request.body)
    )


def properties_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that stand in headers. The others are headers of HTTP's own."""
    return {name.lower(): text for name, value in headers.items() if (text := _text(value)) is not None}


def _application(said: Mapping[str, str]) -> bytes:
    pairs = [wire.string(one) for pair in said.items() for one in pair]
    return wire.section(wire.APPLICATION_PROPERTIES, 0xD1, len(pairs), b"".join(pairs)) if pairs else b""


def _text(value: str) -> str | None:
    """Return the text of a property, which stands in quotation marks, or None."""
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, str) else None
