"""The one reader of lines: each line becomes a transaction or is refused by itself.

It checks the files of publishers and reads the lines of chunks. It learns the layouts of a publisher's lines, so that
lines of a known layout are read fast and not one by one with every check.

A layout is the pattern of a line that was read exactly, with each scalar replaced by any scalar within bounds. A line
that matches it differs in scalars only: it has the same keys, none twice, and the same depth. The caller of `fit` must
still check that:

- the text is UTF-8;
- each line by itself is JSON: no string runs over the end of a line, no control character stands in one, and strings
  and numbers are well formed.

JSON read so strictly that two readers cannot disagree about it. Each refusal has a named reason.

A document without anything doubtful is read by a few calls of C code. Only a doubtful one is read exactly, and slowly.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cached_property, lru_cache
from typing import Any, Final, Generic, NoReturn, TypeVar

import msgspec

from shared.errors import RefusedError
from shared.grammar import VALUE, read_amount
from shared.payload.payload_store import Limits
from shared.refusals import Reason, refuse
from shared.versions import make_decoder

_STRINGS: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
_BLANKS: Final = (b" ", b"\t", b"\r", b"\n")
#: A surrogate can only be written as an escape: UTF-8 has none.
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
#: The exponents of a double. A Decimal with an exponent of a billion would be a bomb.
EXPONENTS: Final = range(-324, 309)
#: The longest integer that Python itself reads.
MOST_DIGITS: Final = 4_300


def read_json(text: bytes, depth: int) -> Any:
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


def _unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
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
    object_pairs_hook=_unique_fields, parse_float=_exact, parse_int=_whole, parse_constant=_no_number
)
_QUICK: Final = msgspec.json.Decoder(float_hook=_exact)


T = TypeVar("T")
#: Lines that are read at once, and the number below which lines with a doubtful one are read one by one.
BLOCK, FEW = 256, 16
#: Lines read one by one before one more layout is learned. Learning takes as long as these lines did, so ever new
#: layouts at most double their cost.
LEARN_AFTER: Final = 1_024


@dataclass(frozen=True, slots=True)
class UnreadableTransaction:
    """A line that was refused, and why."""

    #: Its position among the lines that were read, from 0.
    place: int
    reason: str
    found: str
    #: Its values of the fields that are added up. None: they cannot be known.
    amounts: Mapping[str, Decimal] | None


@dataclass(slots=True)
class Read(Generic[T]):
    """The transactions and the refused lines."""

    transactions: list[T] = field(default_factory=list)
    refused: list[UnreadableTransaction] = field(default_factory=list)
    #: The number of lines that were read one by one, for want of a known layout.
    closely: int = 0


class Reader(Generic[T]):
    """Reads lines as transactions of one type. Safe to use from several threads."""

    def __init__(self, kind: type[T], sums: tuple[str, ...], limits: Limits | None = None) -> None:
        self._sums, self._limits = sums, limits or Limits()
        self._decode = make_decoder(kind).decode
        self._layouts = Layouts(sums, self._limits.depth)
        # A new reader learns from its first block.
        self._strange = LEARN_AFTER - BLOCK

    def read(self, lines: Sequence[bytes]) -> Read[T]:
        """Read lines, each without its line feed."""
        found: Read[T] = Read()
        for first in range(0, len(lines), BLOCK):
            block, before = lines[first : first + BLOCK], found.closely
            self._in_parts(first, block, found)
            self._strange += found.closely - before
            if self._strange >= LEARN_AFTER:
                self._strange = 0
                self._layouts.learn(block)
        return found

    def _in_parts(self, first: int, lines: Sequence[bytes], found: Read[T]) -> None:
        """Read lines at once, or halve them: a few doubtful lines must not slow down the others."""
        if (transactions := self._at_once(lines)) is not None:
            found.transactions += transactions
        elif (half := len(lines) // 2) >= FEW:
            self._in_parts(first, lines[:half], found)
            self._in_parts(first + half, lines[half:], found)
        else:
            found.closely += len(lines)
            for place, line in enumerate(lines, first):
                self._closely(place, line, found)

    def _at_once(self, lines: Sequence[bytes]) -> list[T] | None:
        """Return the transactions, or None if any line is doubtful."""
        size, most = sum(map(len, lines)), self._limits.line_bytes
        if size > self._limits.frame_bytes or (size > most and max(map(len, lines)) > most):
            return None
        text = b"\n".join([*lines, b""])
        try:
            if not text.isascii():
                text.decode()
            if self._layouts.fit(text):
                # Line by line: in one text, an object over two lines and two objects on one line look like two lines.
                return list(map(self._decode, lines))
        except (ValueError, RecursionError):
            pass
        return None

    def _closely(self, place: int, line: bytes, found: Read[T]) -> None:
        amounts = None
        try:
            fields = _object(line, self._limits)
            amounts = {name: read_amount(fields.get(name), name) for name in self._sums}
            found.transactions.append(self._decode(line))
        except RefusedError as error:
            found.refused.append(UnreadableTransaction(place, str(error.reason), error.found, None))
        except (ValueError, RecursionError) as error:
            found.refused.append(UnreadableTransaction(place, Reason.DOES_NOT_FIT.value, str(error), amounts))


@lru_cache(maxsize=64)
def reader_of(kind: Any, sums: tuple[str, ...]) -> Reader[Any]:
    """Return the reader of a type. It is kept, for it learns."""
    return Reader(kind, sums)


@lru_cache(maxsize=64)
def amounts_reader(sums: tuple[str, ...], limits: Limits) -> Reader[Any]:
    """Return a reader of any transactions that reads only the fields to add up, as `amount_0` and so on."""
    # Named by number, since a field may have any name.
    rename = {f"amount_{n}": name for n, name in enumerate(sums)}
    kind = msgspec.defstruct("Amounts", [(own, Decimal | None, None) for own in rename], rename=rename.get)
    return Reader(kind, sums, limits)


def _object(line: bytes, limits: Limits) -> dict[str, Any]:
    if len(line) > limits.line_bytes:
        raise refuse(Reason.LINE_TOO_LONG, f"it has {len(line)} bytes")
    document = read_json(line, limits.depth)
    if not isinstance(document, dict):
        raise refuse(Reason.NOT_AN_OBJECT, f"it is a {_JSON_NAMES.get(type(document), 'value')}")
    return document


_JSON_NAMES: Final = {list: "list", str: "string", int: "number", Decimal: "number", bool: "truth value"}
#: Layouts that are kept: jobs of several publishers run beside each other.
MOST_KNOWN: Final = 8
#: Lines of a block to learn from, and the most layouts among them: a publisher that alternates layouts has few.
SAMPLES, MOST_MIXED = 12, 3
#: Bounds of a layout, which costs memory and about a millisecond to compile, and bytes of a pattern of several.
LONGEST, MOST_TOKENS, LONGEST_PATTERN = 4096, 320, 16 * 1024
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"[ \t\r]*:?|[-+.0-9A-Za-z]+|[][{}, \t\r]')
_NUMBER: Final = rb"-?[0-9]{1,38}(?:\.[0-9]{1,38})?"
_AMOUNT: Final = rb'(?:"%b"|%b|null)' % (VALUE.encode(), VALUE.encode())
#: Without escapes, a quotation mark ends a string. With escapes, it may contain anything but a surrogate.
_PLAIN: Final = rb'"[^"]*+"'
_SCALAR: Final = rb"(?:%b|%b|true|false|null)" % (_PLAIN, _NUMBER)
_ESCAPED: Final = (
    rb'"[^"\\]*+(?:\\(?:["\\/bfnrt]|u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))[^"\\]*+)*"'
)


class _Layout:
    """The layouts of some lines, as one pattern for any number of such lines."""

    def __init__(self, source: bytes) -> None:
        self.source, self._plain = source, re.compile(source)

    def fits(self, text: bytes, *, has_escapes: bool) -> bool:
        return (self._escaped if has_escapes else self._plain).fullmatch(text) is not None

    @cached_property
    def _escaped(self) -> re.Pattern[bytes]:
        # Literal text of a line is escaped in the pattern, so it never equals `_PLAIN`.
        return re.compile(self.source.replace(_PLAIN, _ESCAPED))


class Layouts:
    """The layouts that were learned last. The given fields must be amounts in them."""

    def __init__(self, fields: Sequence[str], depth: int) -> None:
        self._fields, self._depth = frozenset(b'"%b"' % name.encode() for name in fields), depth
        #: Replaced as a whole, for several threads read it.
        self._known: tuple[_Layout, ...] = ()

    def fit(self, text: bytes) -> bool:
        """Return whether each line of the text, all ended by line feeds, has a known layout."""
        has_escapes = b"\\" in text
        return any(known.fits(text, has_escapes=has_escapes) for known in self._known)

    def learn(self, lines: Sequence[bytes]) -> None:
        """Keep the layouts of these lines, unless there are too many of them."""
        found: set[bytes] = set()
        for line in lines[:: max(1, len(lines) // SAMPLES)]:
            layout = self._layout(line)
            if layout is not None:
                found.add(layout)
            if len(found) > MOST_MIXED:
                return
        source = b"(?:(?:%b)\n)*" % b"|".join(sorted(found))
        if found and len(source) <= LONGEST_PATTERN and all(source != known.source for known in self._known):
            self._known = (_Layout(source), *self._known[: MOST_KNOWN - 1])

    def _layout(self, line: bytes) -> bytes | None:
        """Return the pattern of a line, or None if it is refused, too long or too large for a pattern."""
        if len(line) > LONGEST or not self._is_strict(line):
            return None
        tokens = _TOKEN.findall(line)
        return None if len(tokens) > MOST_TOKENS else self._pattern(tokens)

    def _is_strict(self, line: bytes) -> bool:
        try:
            return isinstance(read_json(line, self._depth), dict)
        except RefusedError:
            return False

    def _pattern(self, tokens: list[bytes]) -> bytes | None:
        parts, depth, is_amount = [], 0, False
        for token in tokens:
            if token.endswith(b":") and token.startswith(b'"'):
                if b"\\" in token:
                    return None
                is_amount = depth == 1 and token[:-1].rstrip() in self._fields
                parts.append(re.escape(token))
            elif token[:1] in b" \t\r,":
                parts.append(re.escape(token))
            elif token in b"{[}]":
                if is_amount:
                    return None
                depth += 1 if token in b"{[" else -1
                parts.append(re.escape(token))
            else:
                parts.append(_AMOUNT if is_amount else _SCALAR)
                is_amount = False
        return b"".join(parts)
