"""JSON read so strictly that two readers cannot disagree about it. Each refusal has a named reason.

A document without anything doubtful is read by a few calls of C code. Only a doubtful one is read exactly, and slowly.
"""

import json
import re
from collections import Counter
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import msgspec

from shared.errors import RefusedError
from shared.refusals import Reason, refuse

_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
_BLANKS: Final = (b" ", b"\t", b"\r", b"\n")
#: A surrogate can only be written as an escape: UTF-8 has none.
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
#: The exponents of a double. A Decimal with an exponent of a billion would be a bomb.
EXPONENTS: Final = range(-324, 309)
#: The longest integer that Python itself reads.
MOST_DIGITS: Final = 4_300


def read(text: bytes, depth: int) -> Any:
    """Return the document with exact decimals, or raise RefusedError with the reason."""
    # First of all: the readers below are recursive.
    opened = text.count(b"{") + text.count(b"[")
    if opened > depth and (deepest := depth_of(text)) > depth:
        raise refuse(Reason.TOO_DEEP, f"its nesting is {deepest} deep")
    try:
        document = _QUICK.decode(text)
    except (ValueError, RecursionError, RefusedError):
        return _read_exactly(text)
    keys = len(document) if opened == 1 and isinstance(document, dict) else _keys(document)
    # The quick reader keeps the last of two equal keys, so a document with a double key has fewer keys than colons.
    return document if keys == _colons(text) else _read_exactly(text)


def depth_of(text: bytes) -> int:
    """Return the depth of nested arrays and objects."""
    deepest = depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", text)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _read_exactly(text: bytes) -> Any:
    try:
        document = _EXACT.decode(text.decode())
    except UnicodeDecodeError as error:
        raise refuse(Reason.NOT_UTF8, f"byte {error.start} is {text[error.start]:#04x}") from error
    except (ValueError, RecursionError) as error:
        raise refuse(Reason.NOT_JSON, str(error)) from error
    if _SURROGATE_ESCAPE.search(text):
        _refuse_surrogates(document)
    return document


def _keys(value: Any) -> int:
    """Return the number of keys of all objects together."""
    if isinstance(value, dict):
        return len(value) + sum(map(_keys, value.values()))
    return sum(map(_keys, value)) if isinstance(value, list) else 0


def _colons(text: bytes) -> int:
    """Return the number of colons that may follow a key: at least as many as keys were written."""
    colons = text.count(b'":')
    for blank in _BLANKS:
        # Finding one byte is many times as fast as counting two, and compact JSON has no blanks.
        if blank in text:
            colons += text.count(blank + b":")
    return colons


def _exact(text: str) -> Decimal:
    """Return a number with a point or an exponent, exactly."""
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        # Its exponent is too large even for a Decimal.
        raise refuse(Reason.NUMBER_OUT_OF_RANGE, f"a number begins {text[:20]!r}") from error
    if len(text) > MOST_DIGITS or number.adjusted() not in EXPONENTS:
        raise refuse(Reason.NUMBER_OUT_OF_RANGE, f"a number begins {text[:20]!r}")
    return number


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise refuse(Reason.NUMBER_OUT_OF_RANGE, f"a number has {len(text)} digits")
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise refuse(Reason.NOT_A_NUMBER, f"it says {text}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # Not by comparing each key with all others: a line may have tens of thousands.
        ((twice, _times),) = Counter(key for key, _ in pairs).most_common(1)
        raise refuse(Reason.DUPLICATE_KEY, f"the key is {twice[:80]!r}")
    return found


def _refuse_surrogates(document: Any) -> None:
    try:
        json.dumps(document, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise refuse(Reason.LONE_SURROGATE, f"it is {error.object[error.start]!r}") from error


_EXACT: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_exact, parse_int=_whole, parse_constant=_no_number
)
_QUICK: Final = msgspec.json.Decoder(float_hook=_exact)
