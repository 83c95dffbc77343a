"""The prices of requests: a dated table, which a file of your own can replace."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal

import msgspec

from shared.decoding import decode
from shared.errors import PricesError

#: The prices that come with Sluice.
BUILT_IN: Final = Path(__file__).with_name("prices.json")
#: The units of prices: per 10,000 requests of storage, per million bus operations or executions.
STORAGE_UNIT, MILLION = 10_000, 1_000_000


class BusPrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A namespace of the tier Standard: a fixed charge per month, and tiers of operations, which fall in price."""

    month: Decimal
    #: The last operation of the month in each tier, and the price per million.
    tiers: list[tuple[int | None, Decimal]]

    def price(self, operations: int, before: int = 0) -> Decimal:
        """Price operations after `before` others of the same month, without the fixed charge."""
        return sum((count * each / MILLION for count, each in self._parts(operations, before)), Decimal())

    def marginal(self) -> Decimal:
        """Return the price per million after the operations that the fixed charge includes."""
        return next((each for _, each in self.tiers if each), Decimal())

    def _parts(self, operations: int, before: int) -> Iterator[tuple[int, Decimal]]:
        position, end = before, before + operations
        for up_to, each in self.tiers:
            reached = end if up_to is None else min(end, up_to)
            if reached > position:
                yield reached - position, each
                position = reached


class Functions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Flex Consumption: on demand, and always-ready instances."""

    executions: Decimal
    free_executions: int
    gb_second: Decimal
    free_gb_seconds: int
    ready_gb_second: Decimal
    ready_running_gb_second: Decimal


class Logs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Log Analytics, and alert rules that query it."""

    #: The price per GB of ingested data.
    gb: Decimal
    #: GB per month without a charge.
    free_gb: int
    #: The price per rule and month, by the minutes between two queries.
    alert_rule: dict[int, Decimal]


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of prices."""

    v: Literal[1]
    name: str
    as_of: date
    currency: str
    #: The origin of the figures, or a warning that they are not verified.
    proof: str
    #: The price per 10,000 requests of each meter.
    requests: dict[str, Decimal]
    bus: BusPrices
    functions: Functions
    logs: Logs

    def __str__(self) -> str:
        return f"{self.name}, {self.currency}, as of {self.as_of:%Y-%m-%d} ({self.proof})"


def load(file: Path | None = None) -> Prices:
    """Load the prices of a file, or those that come with Sluice."""
    path = file or BUILT_IN
    try:
        return decode(path.read_bytes(), Prices)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PricesError(
            f"the price table {path} is unreadable or invalid: {error}; start from the table of `sluice cost prices`"
        ) from error
