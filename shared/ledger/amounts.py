"""Exact decimals: read from text within bounds, added without ever being rounded."""

from collections.abc import Callable, Mapping
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from types import MappingProxyType
from typing import Final

from shared.payload.decimals import ZERO, read_sum

#: Enough for a thousand million of the largest amounts; whatever does not fit is an error, never a rounding.
_EXACT: Final = Context(prec=100, traps=[DivisionByZero, Inexact, InvalidOperation, Overflow])

#: Sums by name; the mapping is never changed in place.
Amounts = Mapping[str, Decimal]
NO_AMOUNTS: Final[Amounts] = MappingProxyType({})


def amounts(texts: Mapping[str, str]) -> Amounts:
    """Return the decimals of every sum; raises ValueError for anything but plain digits of a sane number."""
    return MappingProxyType({name: read_sum(text) for name, text in texts.items()})


def plus(left: Amounts, right: Amounts) -> Amounts:
    """Return the exact sums; a name that one side lacks counts as zero there."""
    return _combined(left, right, _EXACT.add)


def minus(left: Amounts, right: Amounts) -> Amounts:
    """Return the exact differences; what becomes zero is left out, as if it had never been added."""
    return _combined(left, right, _EXACT.subtract)


def texts(values: Amounts) -> dict[str, str]:
    """Return the sums as text without exponents, as messages and rows carry them."""
    return {name: format(value, "f") for name, value in sorted(values.items())}


def _combined(left: Amounts, right: Amounts, operation: Callable[[Decimal, Decimal], Decimal]) -> Amounts:
    if not right:
        return left
    names = sorted({*left, *right})
    both = {name: operation(left.get(name, ZERO), right.get(name, ZERO)) for name in names}
    return MappingProxyType({name: value for name, value in both.items() if value})
