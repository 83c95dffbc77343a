"""Turns the lines of a frame into transactions: typed, each on its own, so that a bad one does not take others along.

A frame without anything doubtful is read in a few calls of C; only what is doubtful is read exactly, line by line.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from functools import reduce
from typing import Any, Final, Generic, TypeVar

import msgspec

from shared.errors import RefusedError
from shared.payload import strict_json
from shared.payload.limits import Limits
from shared.payload.reasons import Reason, refuse

T = TypeVar("T")
Fields = dict[str, Any]

_PLAIN_DECIMAL: Final = re.compile(r"-?\d{1,38}(?:\.\d{1,38})?", re.ASCII)
_MOST_DIGITS: Final = 38
#: Room for ten million amounts, however they are placed about the point; running out of it would be an error, not a
#: rounding.
_EXACT: Final = Context(prec=150, traps=[Inexact])
_ZERO: Final = Decimal()
_OBJECTS: Final = msgspec.json.Decoder(Fields, float_hook=strict_json.exact)


@dataclass(frozen=True, slots=True)
class Rejected:
    """A transaction that could not be read: its position in the payload, why, and its bytes."""

    position: int
    reason: str
    found: str
    line: bytes


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one or more frames and what could be read of them, without a type."""

    first: int
    lines: Sequence[bytes]
    #: None where the line was rejected.
    objects: Sequence[Fields | None]
    rejected: tuple[Rejected, ...]
    #: By field that was asked for: what each line says there; null, nothing and what was rejected count 0.
    amounts: Mapping[str, Sequence[Decimal]]


@dataclass(frozen=True, slots=True)
class Transactions(Generic[T]):
    """The transactions of a chunk, each with its position in the payload, and those that were rejected."""

    accepted: Sequence[T]
    positions: Sequence[int]
    rejected: tuple[Rejected, ...]
    #: By field with a declared sum: what each accepted transaction says there, and all rejected ones together.
    amounts: Mapping[str, Sequence[Decimal]]
    rejected_sums: Mapping[str, Decimal]


def total(amounts: Sequence[Decimal]) -> Decimal:
    """Return the exact sum."""
    return reduce(_EXACT.add, amounts, Decimal())


def amount(value: object, field: str) -> Decimal:
    """Return the number in a field, exactly; null and nothing are 0, and anything else than a number is refused."""
    if value is None:
        return _ZERO
    if isinstance(value, str) and _PLAIN_DECIMAL.fullmatch(value):
        return Decimal(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        number = Decimal(value)
        if abs(number.adjusted()) <= _MOST_DIGITS and len(number.as_tuple().digits) <= _MOST_DIGITS:
            return number
    raise refuse(Reason.BAD_AMOUNT, f"{field} is {str(value)[:50]!r}")


def read_lines(text: bytes, first: int, sums: Sequence[str], limits: Limits) -> Lines:
    """Return the lines of a frame's content; the first one is the payload's `first`."""
    lines = text.split(b"\n")[:-1]
    objects = _read_at_once(text, lines, limits)
    if objects is not None and (amounts := _amounts_at_once(objects, sums)) is not None:
        return Lines(first, lines, objects, (), amounts)
    rejected: list[Rejected] = []
    checked: list[Fields | None] = []
    for position, line in enumerate(lines, first):
        try:
            checked.append(_checked(objects[position - first] if objects else _read(line, limits), sums))
        except RefusedError as error:
            checked.append(None)
            rejected.append(Rejected(position, error.reason, error.found, line))
    return Lines(first, lines, checked, tuple(rejected), {field: _amounts(checked, field) for field in sums})


def read_transactions(text: bytes, kind: type[T], first: int, sums: Sequence[str], limits: Limits) -> Transactions[T]:
    """Return the transactions of a frame's content, those that do not fit the type rejected with the reason."""
    lines = read_lines(text, first, sums, limits)
    accepted = None if lines.rejected else _decode_all(text, kind)
    if accepted is not None:
        return Transactions(
            accepted, range(first, first + len(accepted)), (), lines.amounts, dict.fromkeys(sums, Decimal())
        )
    return _one_by_one(lines, kind)


def _one_by_one(lines: Lines, kind: type[T]) -> Transactions[T]:
    rejected = {one.position: one for one in lines.rejected}
    accepted: dict[int, T] = {}
    for position, line in enumerate(lines.lines, lines.first):
        if position in rejected:
            continue
        try:
            accepted[position] = msgspec.json.decode(line, type=kind)
        except (ValueError, RecursionError) as error:
            rejected[position] = Rejected(position, Reason.DOES_NOT_FIT, str(error), line)
    kept = {field: [each[place - lines.first] for place in accepted] for field, each in lines.amounts.items()}
    lost = {field: [each[place - lines.first] for place in rejected] for field, each in lines.amounts.items()}
    in_order = tuple(rejected[position] for position in sorted(rejected))
    sums = {field: total(each) for field, each in lost.items()}
    return Transactions(list(accepted.values()), list(accepted), in_order, kept, sums)


def _decode_all(text: bytes, kind: type[T]) -> list[T] | None:
    try:
        return msgspec.json.Decoder(kind).decode_lines(text)
    except (ValueError, RecursionError):
        return None


def _read_at_once(text: bytes, lines: Sequence[bytes], limits: Limits) -> list[Fields] | None:
    """Return every line's object when there is no doubt about any, None when one needs a closer look."""
    if max(map(len, lines), default=0) > limits.line_bytes:
        return None
    try:
        objects = _OBJECTS.decode_lines(text)
        is_flat = text.count(b"{") + text.count(b"[") == len(lines)
        keys = sum(map(len, objects)) if is_flat else sum(_keys(one, limits.depth) for one in objects)
    except (ValueError, RecursionError, RefusedError):
        return None
    return objects if len(objects) == len(lines) and _colons(text) == keys else None


def _keys(value: Fields | list[Any], depth: int) -> int:
    if depth == 0:
        raise refuse(Reason.TOO_DEEP, "its nesting is too deep")
    inner = value if isinstance(value, list) else value.values()
    own = 0 if isinstance(value, list) else len(value)
    return own + sum(_keys(one, depth - 1) for one in inner if isinstance(one, dict | list))


def _colons(text: bytes) -> int:
    """Return how many colons could stand behind a key: when there are as many keys, none was given twice."""
    # One byte is found many times as fast as two are counted, and compact JSON has no blanks.
    return text.count(b'":') + sum(text.count(blank + b":") for blank in (b" ", b"\t", b"\r") if blank in text)


def _read(line: bytes, limits: Limits) -> Fields:
    if len(line) > limits.line_bytes:
        raise refuse(Reason.LINE_TOO_LONG, f"it has {len(line)} bytes")
    if found := _read_at_once(line, (line,), limits):
        return found[0]
    document = strict_json.read(line, limits.depth)
    if not isinstance(document, dict):
        raise refuse(Reason.NOT_AN_OBJECT, f"it is a {_JSON_NAMES.get(type(document), 'value')}")
    return document


def _amounts_at_once(objects: Sequence[Fields], sums: Sequence[str]) -> dict[str, list[Decimal]] | None:
    try:
        return {field: _amounts(objects, field) for field in sums}
    except RefusedError:
        return None


def _amounts(objects: Sequence[Fields | None], field: str) -> list[Decimal]:
    values = [one.get(field) if one else None for one in objects]
    try:
        # A number as text is what nearly all are: a call for each would cost as much as the number.
        if all(map(_PLAIN_DECIMAL.fullmatch, values)):  # type: ignore[arg-type]  # TypeError for what is no text
            return list(map(Decimal, values))  # type: ignore[arg-type]
    except TypeError:
        pass
    return [amount(value, field) for value in values]


def _checked(found: Fields, sums: Sequence[str]) -> Fields:
    for field in sums:
        amount(found.get(field), field)
    return found


_JSON_NAMES: Final = {list: "list", str: "string", int: "number", Decimal: "number", bool: "truth value"}
