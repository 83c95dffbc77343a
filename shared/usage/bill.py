"""The bill of counted requests: a line per billing meter and cause, and the sum."""

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
    """The cost of requests, line by line."""

    lines: tuple[BillLine, ...]
    #: Requests without a known price, which no amount includes.
    unpriced: int = 0

    @property
    def total(self) -> Decimal:
        """The sum of all lines."""
        return sum((line.amount for line in self.lines), Decimal())

    @property
    def requests(self) -> int:
        """The number of all requests, priced or not."""
        return sum(line.number for line in self.lines) + self.unpriced


def useful(**requests: int) -> RequestCounts:
    """Build counts by billing meter, for calculations: `useful(queue=3, blob_write=1)`."""
    return {Charge(name.replace("_", "-"), Cause.USEFUL.value): number for name, number in requests.items()}


def add(*usages: RequestCounts) -> RequestCounts:
    """Add up counts of requests."""
    total: Counter[Charge] = Counter()
    for usage in usages:
        total.update(usage)
    return total


def price(usage: RequestCounts, prices: Prices) -> Bill:
    """Price the counts. Each bus operation costs as much as the first one beyond the fixed charge."""
    lines, unpriced = [], 0
    for charge, number in sorted(usage.items()):
        each = prices.bus.marginal() / MILLION if charge.meter == BUS else _price_of_one(charge.meter, prices)
        if each is None:
            unpriced += number
        else:
            lines.append(BillLine(charge, number, number * each))
    return Bill(tuple(lines), unpriced)


def _price_of_one(meter: str, prices: Prices) -> Decimal | None:
    unit_price = prices.requests.get(meter)
    return None if unit_price is None else unit_price / STORAGE_UNIT
