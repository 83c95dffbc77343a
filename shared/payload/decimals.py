"""The one grammar of numbers that are added up, whoever writes them and wherever they stand.

As text: digits, perhaps a minus before them, perhaps a point and digits behind it. Numbers of JSON have the same bounds.
"""

import re
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Rounded
from typing import Final

from shared.payload.reasons import Reason, refuse

#: Digits of one value before and behind the point.
DIGITS, PLACES = 20, 18
#: Digits of a sum before the point: ten million of the largest values have 27.
DIGITS_OF_SUM: Final = 30
ZERO: Final = Decimal(0)
#: Whatever would have to be rounded is an error instead.
EXACT: Final = Context(prec=DIGITS_OF_SUM + PLACES, traps=[Inexact, InvalidOperation, Overflow, Rounded])
#: The grammar of a value and of a sum; `[0-9]`, since `\d` takes the digits of every script.
VALUE: Final = rf"-?[0-9]{{1,{DIGITS}}}(?:\.[0-9]{{1,{PLACES}}})?"
SUM: Final = rf"-?[0-9]{{1,{DIGITS_OF_SUM}}}(?:\.[0-9]{{1,{PLACES}}})?"
_VALUE: Final = re.compile(VALUE)
_SUM: Final = re.compile(SUM)


def read_amount(value: object, field: str) -> Decimal:
    """Return what a field says, exactly; null and nothing are 0, and anything but a number within bounds is refused."""
    if value is None:
        return ZERO
    if isinstance(value, str) and _VALUE.fullmatch(value):
        # As it is written: a Decimal would also take what the grammar does not have, like 1_000.
        return Decimal(value)
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and _is_within(Decimal(value)):
        return Decimal(value)
    raise refuse(Reason.BAD_AMOUNT, f"{field} is {str(value)[:50]!r}")


def read_sum(text: str) -> Decimal:
    """Return a sum; raise ValueError for anything but plain digits of a sane number."""
    if not _SUM.fullmatch(text):
        raise ValueError(
            f"{text[:70]!r} is no decimal number of at most {DIGITS_OF_SUM} digits before and {PLACES} behind the point"
        )
    return Decimal(text)


def _is_within(number: Decimal) -> bool:
    return number.adjusted() < DIGITS and -int(number.as_tuple().exponent) <= PLACES
