"""The price of what was counted: requests by what they are billed as and why they were made, and the sum."""

from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from shared.azure import BUS, Cause, Charge, RequestCounts
from shared.usage.prices import MILLION, STORAGE_UNIT, Prices


class BillLine(NamedTuple):
    """One line of a bill."""

    charge: Charge
    number: int
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Bill:
    """What usage costs."""

    lines: tuple[BillLine, ...]
    #: Requests of which it is not known what they are billed as: they are in no amount.
    unpriced: int = 0

    @property
    def total(self) -> Decimal:
        """The sum of all lines."""
        return sum((line.amount for line in self.lines), Decimal())

    @property
    def requests(self) -> int:
        """Every request, priced or not."""
        return sum(line.number for line in self.lines) + self.unpriced


def useful(**requests: int) -> RequestCounts:
    """Return usage by what it is billed as, for arithmetic: `useful(queue=3, blob_write=1)`."""
    return {Charge(name.replace("_", "-"), Cause.USEFUL.value): number for name, number in requests.items()}


def add(*usages: RequestCounts) -> RequestCounts:
    """Return the sum of usages."""
    found: Counter[Charge] = Counter()
    for usage in usages:
        found.update(usage)
    return found


def price(usage: RequestCounts, prices: Prices) -> Bill:
    """Return the bill. Bus operations have the price of those that no fixed charge includes: the next one would."""
    lines, unpriced = [], 0
    for charge, number in sorted(usage.items()):
        each = prices.bus.marginal() / MILLION if charge.meter == BUS else _each(charge.meter, prices)
        if each is None:
            unpriced += number
        else:
            lines.append(BillLine(charge, number, number * each))
    return Bill(tuple(lines), unpriced)


def _each(meter: str, prices: Prices) -> Decimal | None:
    found = prices.requests.get(meter)
    return None if found is None else found / STORAGE_UNIT
