"""Control sums: fields of transactions, added exactly, so that nothing can be lost between two stages unseen."""

from collections.abc import Iterable, Sequence
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation, Overflow, Rounded, localcontext
from functools import cache
from operator import attrgetter
from typing import Any, Final

import msgspec

from shared.pipeline.messages import Sums

#: Digits before and after the point that one value may have, and that a sum of a chunk may have before it.
DIGITS_OF_VALUE, PLACES, DIGITS_OF_SUM = 20, 18, 30
#: Whatever would have to be rounded is an error instead.
EXACT: Final = Context(prec=DIGITS_OF_SUM + PLACES, traps=[Inexact, InvalidOperation, Overflow, Rounded])
_ZERO: Final = Decimal(0)
_TOO_MUCH: Final = Decimal(10) ** DIGITS_OF_VALUE


def sums_of(transactions: Sequence[Any], fields: Iterable[str]) -> Sums | None:
    """Return the exact sum of each field, or None when some value is none that can be added."""
    try:
        with localcontext(EXACT):
            return {name: _sum(list(map(attrgetter(name), transactions))) for name in fields}
    except (DecimalException, TypeError):
        return None


def is_addable(transaction: Any, fields: Iterable[str]) -> bool:
    """Whether each field of the transaction is within the bounds of a control sum."""
    return all(_is_within(getattr(transaction, name)) for name in fields)


def added(parts: Sequence[Sums | None], fields: Iterable[str]) -> Sums | None:
    """Return the sums of sums; one that is not known makes the whole unknown."""
    known = [part for part in parts if part is not None]
    if len(known) != len(parts):
        return None
    with localcontext(EXACT):
        return {name: _text(sum((Decimal(part[name]) for part in known), _ZERO)) for name in fields}


def sums_of_line(line: bytes, fields: tuple[str, ...]) -> Sums | None:
    """Return the control values of a line that is no transaction; a field that is absent or null counts as zero."""
    if not fields:
        return {}
    try:
        found = _control_fields(fields).decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None
    values = {name: getattr(found, f"value_{n}") or _ZERO for n, name in enumerate(fields)}
    return {name: _text(value) for name, value in values.items()} if all(map(_is_within, values.values())) else None


@cache
def _control_fields(fields: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    # Named by number, since a field may be called like anything.
    names = {f"value_{n}": name for n, name in enumerate(fields)}
    return msgspec.json.Decoder(
        msgspec.defstruct("ControlFields", [(name, Decimal | None, None) for name in names], rename=names.get)
    )


def _is_within(value: Decimal | int) -> bool:
    value = Decimal(value)
    if not value.is_finite():
        return False
    return _places(value) <= PLACES and (not value or value.adjusted() < DIGITS_OF_VALUE)


def _sum(values: Sequence[Decimal | int]) -> str:
    if values and not (min(values) > -_TOO_MUCH and max(values) < _TOO_MUCH):
        raise InvalidOperation("a value has too many digits")
    return _text(Decimal(sum(values, _ZERO)))


def _text(value: Decimal) -> str:
    # A sum has as many places as the value with the most of them, so one with too many shows here.
    if not value.is_finite() or _places(value) > PLACES or (value and value.adjusted() >= DIGITS_OF_SUM):
        raise InvalidOperation("the sum is none that a message carries")
    return format(value, "f")


def _places(value: Decimal) -> int:
    return -int(value.as_tuple().exponent)
