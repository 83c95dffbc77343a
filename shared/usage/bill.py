"""The price of what was counted: requests by what they are billed as and why they were made, and the sum."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from shared.usage.prices import MILLION, STORAGE_UNIT, Prices
from shared.usage.requests import BLOB, BUS, Kind
from shared.usage.tally import Cause, Counted, Tally

#: What each operation on blobs is billed as; the ones that are not here are "other".
_BLOB_METERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PutBlob": "blob-write",
        "PutBlock": "blob-write",
        "PutBlockList": "blob-write",
        "AppendBlock": "blob-write",
        "GetBlob": "blob-read",
        "ListBlobs": "blob-list",
        "ListContainers": "blob-list",
        "CreateContainer": "blob-list",
        "DeleteBlob": "blob-delete",
        "DeleteContainer": "blob-delete",
    }
)


class Charge(NamedTuple):
    """What a count of requests is billed as, and why they were made."""

    meter: str
    cause: str

    def __str__(self) -> str:
        return f"{self.meter} {self.cause}"

    @classmethod
    def parse(cls, text: str) -> "Charge":
        """Return what a row's text says; rows of before it was noted have the cause alone."""
        meter, _, cause = text.rpartition(" ")
        return cls(meter, cause)


Usage: TypeAlias = Mapping[Charge, int]


class Line(NamedTuple):
    """One line of a bill."""

    charge: Charge
    number: int
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Bill:
    """What usage costs."""

    lines: tuple[Line, ...]
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


def meter_of(kind: Kind) -> str:
    """Return what a kind of request is billed as."""
    return _BLOB_METERS.get(kind.operation, "blob-other") if kind.service == BLOB else kind.service


def usage_of(tally: Tally) -> Usage:
    """Return what a tally counted, as it is billed."""
    return usage_of_counts(tally.counts())


def usage_of_counts(counts: Mapping[Counted, int]) -> Usage:
    """Return counts as they are billed."""
    found: Counter[Charge] = Counter()
    for (kind, cause), number in counts.items():
        found[Charge(meter_of(kind), cause.value)] += number
    return found


def charges(tally: Tally) -> dict[str, int]:
    """Return what a tally counted as messages and rows have it."""
    return {str(charge): number for charge, number in usage_of(tally).items()}


def useful(**requests: int) -> Usage:
    """Return usage by what it is billed as, for arithmetic: `useful(queue=3, blob_write=1)`."""
    return {Charge(name.replace("_", "-"), Cause.USEFUL.value): number for name, number in requests.items()}


def added(*usages: Usage) -> Usage:
    """Return the sum of usages."""
    found: Counter[Charge] = Counter()
    for usage in usages:
        found.update(usage)
    return found


def price(usage: Usage, prices: Prices) -> Bill:
    """Return the bill. Bus operations have the price of those that no fixed charge includes: the next one would."""
    lines, unpriced = [], 0
    for charge, number in sorted(usage.items()):
        each = prices.bus.marginal() / MILLION if charge.meter == BUS else _each(charge.meter, prices)
        if each is None:
            unpriced += number
        else:
            lines.append(Line(charge, number, number * each))
    return Bill(tuple(lines), unpriced)


def _each(meter: str, prices: Prices) -> Decimal | None:
    found = prices.requests.get(meter)
    return None if found is None else found / STORAGE_UNIT
