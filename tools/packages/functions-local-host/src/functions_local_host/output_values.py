"""How the host turns the value of an output binding into messages: text that looks like JSON is read and re-written."""

import json
from typing import Any

from azure.functions.meta import Datum

from functions_local_host.json_text import cast_to_text, indented, looks_like_json


class OutputError(RuntimeError):
    """Raised when an output cannot be written. The invocation has then failed."""


def messages_of(value: Datum) -> list[str | bytes]:
    """Return the bodies that one output value becomes.

    A JSON array is one message per element, a JSON object is written anew with indentation, anything else passes.
    """
    if value.type == "bytes":
        return [value.value]
    if value.type not in ("string", "json"):
        raise OutputError(f"the value is of type {value.type!r}, expected text, bytes or JSON")
    if value.type == "string" and not looks_like_json(value.value):
        return [value.value]
    parsed = _parsed(value.value)
    return [_element(item) for item in (parsed if isinstance(parsed, list) else [parsed])]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise OutputError(
            f"the value begins and ends like JSON but cannot be read as it ({error}): the host parses such text"
        ) from error


def _element(value: Any) -> str:
    if isinstance(value, dict | list):
        return indented(value)
    return cast_to_text(value) or ""
