"""Reads lines as transactions, each on its own, so that a bad one does not take others along: the one reader of lines.

Whoever takes transactions asks it: what checks a publisher's file, and what runs a chunk.

Learns how a publisher's lines look, so that lines of the same layout need no close look.

A layout is a line that was read exactly, with each scalar value replaced by any scalar within bounds. What matches it
differs from that line in scalars only: it has the same keys, none twice, and the same depth. Four things a layout
leaves to who asks: the text is UTF-8, and each line is JSON by itself, which says that no text runs over a line's
end, that no control character stands in one, and that texts and numbers are well formed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from shared.errors import RefusedError
from shared.grammar import VALUE, read_amount
from shared.payload import strict_json
from shared.payload.limits import Limits
from shared.refusals import Reason, refuse

T = TypeVar("T")
#: Lines that are read at once, and so few that are looked at one by one where one of them is doubtful.
BLOCK, FEW = 256, 16
#: After how many lines that needed a close look one more layout is learned: that takes as long as these did, so that
#: ever new layouts at most double what they cost.
LEARN_AFTER: Final = 1_024


@dataclass(frozen=True, slots=True)
class UnreadableTransaction:
    """A line that is no transaction."""

    #: Among the lines that were read, from 0.
    place: int
    reason: str
    found: str
    #: What it says in the fields that are added up; None where that cannot be known.
    amounts: Mapping[str, Decimal] | None


@dataclass(slots=True)
class Read(Generic[T]):
    """What the lines hold."""

    transactions: list[T] = field(default_factory=list)
    refused: list[UnreadableTransaction] = field(default_factory=list)
    #: How many lines were not of a known layout.
    closely: int = 0


class Reader(Generic[T]):
    """Reads lines as transactions of one type; safe to use from several threads."""

    def __init__(self, kind: type[T], sums: tuple[str, ...], limits: Limits | None = None) -> None:
        self._sums, self._limits = sums, limits or Limits()
        self._decode = msgspec.json.Decoder(kind).decode
        self._layouts = Layouts(sums, self._limits.depth)
        # The first block of a new reader is learned from at once.
        self._strange = LEARN_AFTER - BLOCK

    def read(self, lines: Sequence[bytes]) -> Read[T]:
        """Return what the lines hold, each without its line feed."""
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
        """Read lines of which some are doubtful: a few of these are not to cost the others a close look."""
        if (sure := self._at_once(lines)) is not None:
            found.transactions += sure
        elif (half := len(lines) // 2) >= FEW:
            self._in_parts(first, lines[:half], found)
            self._in_parts(first + half, lines[half:], found)
        else:
            found.closely += len(lines)
            for place, line in enumerate(lines, first):
                self._closely(place, line, found)

    def _at_once(self, lines: Sequence[bytes]) -> list[T] | None:
        """Return what the lines hold when there is no doubt about any."""
        size, most = sum(map(len, lines)), self._limits.line_bytes
        if size > self._limits.frame_bytes or (size > most and max(map(len, lines)) > most):
            return None
        text = b"\n".join([*lines, b""])
        try:
            if not text.isascii():
                text.decode()
            if self._layouts.fit(text):
                # Each by itself: read as one text, an object over two lines and two on one would count as two lines.
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
    """Return the reader of a type; it is kept, for it learns."""
    return Reader(kind, sums)


@lru_cache(maxsize=64)
def amounts_reader(sums: tuple[str, ...], limits: Limits) -> Reader[Any]:
    """Return a reader of any transactions, that knows of them the fields that are added up, `amount_0` and so on."""
    # Named by number, since a field may be called like anything.
    rename = {f"amount_{n}": name for n, name in enumerate(sums)}
    kind = msgspec.defstruct("Amounts", [(own, Decimal | None, None) for own in rename], rename=rename.get)
    return Reader(kind, sums, limits)


def _object(line: bytes, limits: Limits) -> dict[str, Any]:
    if len(line) > limits.line_bytes:
        raise refuse(Reason.LINE_TOO_LONG, f"it has {len(line)} bytes")
    document = strict_json.read(line, limits.depth)
    if not isinstance(document, dict):
        raise refuse(Reason.NOT_AN_OBJECT, f"it is a {_JSON_NAMES.get(type(document), 'value')}")
    return document


_JSON_NAMES: Final = {list: "list", str: "string", int: "number", Decimal: "number", bool: "truth value"}
#: How many layouts are remembered: jobs of several publishers run beside each other.
MOST_KNOWN: Final = 8
#: Lines that are looked at to learn, and layouts that may be found among them: one that takes turns has few.
SAMPLES, MOST_MIXED = 12, 3
#: A layout costs memory and about a millisecond to compile; of the pattern of several, bytes.
LONGEST, MOST_TOKENS, LONGEST_PATTERN = 4096, 320, 16 * 1024
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"[ \t\r]*:?|[-+.0-9A-Za-z]+|[][{}, \t\r]')
_NUMBER: Final = rb"-?[0-9]{1,38}(?:\.[0-9]{1,38})?"
_AMOUNT: Final = rb'(?:"%b"|%b|null)' % (VALUE.encode(), VALUE.encode())
#: Where no text has an escape, a quotation mark ends it. One that has may spell anything but a surrogate.
_PLAIN: Final = rb'"[^"]*+"'
_SCALAR: Final = rb"(?:%b|%b|true|false|null)" % (_PLAIN, _NUMBER)
_ESCAPED: Final = (
    rb'"[^"\\]*+(?:\\(?:["\\/bfnrt]|u(?:[0-9a-ce-fA-CE-F][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))[^"\\]*+)*"'
)


class _Layout:
    """The layouts of some lines, as one pattern of any number of such lines."""

    def __init__(self, source: bytes) -> None:
        self.source, self._plain = source, re.compile(source)

    def fits(self, text: bytes, *, has_escapes: bool) -> bool:
        return (self._escaped if has_escapes else self._plain).fullmatch(text) is not None

    @cached_property
    def _escaped(self) -> re.Pattern[bytes]:
        # What a line says literally is escaped for the pattern, so that it never looks like this.
        return re.compile(self.source.replace(_PLAIN, _ESCAPED))


class Layouts:
    """The layouts that were learned last, in the light of the fields that must be amounts."""

    def __init__(self, fields: Sequence[str], depth: int) -> None:
        self._fields, self._depth = frozenset(b'"%b"' % name.encode() for name in fields), depth
        #: Replaced as a whole, for several threads read.
        self._known: tuple[_Layout, ...] = ()

    def fit(self, text: bytes) -> bool:
        """Whether each line of the text, all ended by line feeds, has a layout that is known."""
        has_escapes = b"\\" in text
        return any(known.fits(text, has_escapes=has_escapes) for known in self._known)

    def learn(self, lines: Sequence[bytes]) -> None:
        """Remember how these lines look, unless they look too different from each other."""
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
        """Return the pattern of a line, or None for one that no other line is measured by."""
        if len(line) > LONGEST or not self._is_strict(line):
            return None
        tokens = _TOKEN.findall(line)
        return None if len(tokens) > MOST_TOKENS else self._pattern(tokens)

    def _is_strict(self, line: bytes) -> bool:
        try:
            return isinstance(strict_json.read(line, self._depth), dict)
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
