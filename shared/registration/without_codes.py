"""The copy of a refused message of customers, shops and banks that may be stored: it has no access code.

An order that can be read keeps the salted hash of its sender's code, so a replay places it under the same code. A change
keeps nothing of its code: the salt of its order is not in it. So a replay changes no order. A message that cannot be read
may have a code anywhere. Every value that no message has is taken out of it, and such a copy is never
read as an order again. Every function returns its own results unchanged, so a replay that fails finds its entry.
"""

import base64
import binascii
from contextlib import suppress
from typing import Any, Final

import msgspec

from shared.errors import RefusedError
from shared.messages import unwrap
from shared.payload import WRAPPER, Limits
from shared.registration.access_codes import hash_own
from shared.registration.public_messages import PlaceOrder, UpdateOrder, content_hash, read_order_message

#: Stands in each gap. It is too short for an access code, so no order gets it as one.
REMOVED: Final = "removed"
_CODE, _HASH = "access_code", "access_code_hash"
#: What every name of an access code has in it.
_HINT: Final = b"code"
#: The fields of all messages that hold no code.
_PLAIN: Final = frozenset(
    "sluice v kind id order conference seats gate version outcome amount price quota".split()  # noqa: SIM905 - one a word
)
#: The kinds of messages that never have a code.
_CODELESS: Final = frozenset({"conference", "add_seats", "remove_seats", "close_conference", "payment"})


def remove_codes(body: bytes) -> bytes:
    """Return the bytes that may be stored: the same ones, if there is no code in them."""
    try:
        message = read_order_message(body, Limits())
    except RefusedError:
        return _blank(body)
    if not isinstance(message, PlaceOrder | UpdateOrder) or not isinstance(message.access_code, str):
        return body
    fields = msgspec.json.decode(unwrap(body))[WRAPPER]
    del fields[_CODE]
    if isinstance(message, PlaceOrder):
        fields[_HASH] = hash_own(message.order, content_hash(message), message.access_code).hash
    return msgspec.json.encode({WRAPPER: fields})


def _blank(body: bytes) -> bytes:
    text = unwrap(body)
    document: Any = None
    with suppress(msgspec.DecodeError, ValueError, RecursionError):
        document = msgspec.json.decode(text)
    if not isinstance(document, dict):
        return _cut(body, text)
    may_hide = _HINT in text.lower()
    if not may_hide and _kind(document) in _CODELESS:
        return body
    cleaned = _clean(document)
    if cleaned == document and not may_hide:
        return body
    # A key that stood twice is gone by now. So the copy must not be an order that can be placed.
    wrapper = cleaned.get(WRAPPER)
    (wrapper if isinstance(wrapper, dict) else cleaned)[_CODE] = REMOVED
    return msgspec.json.encode(cleaned)


def _kind(document: dict[str, Any]) -> str:
    fields = document.get(WRAPPER)
    return str(fields.get("kind")) if isinstance(fields, dict) else ""


def _clean(document: dict[str, Any]) -> dict[str, Any]:
    return {name: _clean_field(name, value) if name in _PLAIN else REMOVED for name, value in document.items()}


def _clean_field(name: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if name != "seats":
        return _clean(value)
    # Its keys are types of seats, and its values numbers, or a price and a quota.
    return {
        type_: _clean(one) if isinstance(one, dict) else one if isinstance(one, int | float) else REMOVED
        for type_, one in value.items()
    }


def _cut(body: bytes, text: bytes) -> bytes:
    """Return text that is no document, up to the first word that may announce a code."""
    with suppress(binascii.Error, ValueError):
        decoded = base64.b64decode(text, validate=True)
        text = decoded if _HINT in decoded.lower() else text
    at = text.lower().find(_HINT)
    return body if at < 0 else text[:at] + _HINT + b": " + REMOVED.encode()
