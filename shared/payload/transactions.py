"""Reads lines as transactions, each on its own, so that a bad one does not take others along: the one reader of lines.

Whoever takes transactions asks it: what checks a publisher's file, and what runs a chunk.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from shared.errors import RefusedError
from shared.payload import strict_json
from shared.payload.decimals import read_amount
from shared.payload.layout import Layouts
from shared.payload.limits import Limits
from shared.payload.reasons import Reason, refuse

T = TypeVar("T")

#: Lines that are read at once, and so few that are looked at one by one where one of them is doubtful.
BLOCK, FEW = 256, 16
#: After how many lines that needed a close look one more layout is learned: that takes as long as these did, so that
#: ever new layouts at most double what they cost.
LEARN_AFTER: Final = 1_024


@dataclass(frozen=True, slots=True)
class Refused:
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
    refused: list[Refused] = field(default_factory=list)
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
            found.refused.append(Refused(place, str(error.reason), error.found, None))
        except (ValueError, RecursionError) as error:
            found.refused.append(Refused(place, Reason.DOES_NOT_FIT.value, str(error), amounts))


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
