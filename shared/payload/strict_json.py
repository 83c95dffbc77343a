"""JSON read so strictly that two readers cannot disagree about it, with a named reason for whatever is not read.

`read` is exact and slow, for messages and for the lines that `transactions` is not sure of.
"""

import json
import re
from collections import Counter
from decimal import Decimal
from typing import Any, Final, NoReturn

from shared.payload.reasons import Reason, refuse

_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
#: A surrogate can only come from an escape: UTF-8 has none.
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
#: What a double can hold; a Decimal with an exponent of a billion would be a bomb of its own.
EXPONENTS: Final = range(-324, 309)
#: Where Python itself stops reading an integer.
MOST_DIGITS: Final = 4_300


def read(text: bytes, depth: int) -> Any:
    """Return the document, decimals exact, or raise RefusedError with what is wrong with it."""
    # Before anything recursive sees it.
    if depth_of(text) > depth:
        raise refuse(Reason.TOO_DEEP, f"its nesting is {depth_of(text)} deep")
    try:
        document = _DECODER.decode(text.decode())
    except UnicodeDecodeError as error:
        raise refuse(Reason.NOT_UTF8, f"byte {error.start} is {text[error.start]:#04x}") from error
    except (ValueError, RecursionError) as error:
        raise refuse(Reason.NOT_JSON, str(error)) from error
    if _SURROGATE_ESCAPE.search(text):
        _refuse_surrogates(document)
    return document


def depth_of(text: bytes) -> int:
    """Return how deep arrays and objects lie within each other."""
    deepest = depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", text)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def exact(text: str) -> Decimal:
    """Return a number that is not whole, exactly as it is written."""
    number = Decimal(text)
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
        # Not by looking for each key among all: a line may have tens of thousands.
        ((twice, _times),) = Counter(key for key, _ in pairs).most_common(1)
        raise refuse(Reason.DUPLICATE_KEY, f"the key is {twice[:80]!r}")
    return found


def _refuse_surrogates(document: Any) -> None:
    try:
        json.dumps(document, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise refuse(Reason.LONE_SURROGATE, f"it is {error.object[error.start]!r}") from error


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=exact, parse_int=_whole, parse_constant=_no_number
)
