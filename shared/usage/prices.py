"""What requests cost: a dated table that is data, so that anybody can put their own in its place."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal

import msgspec

from shared.errors import PricesError

#: The prices that come with Sluice.
BUILT_IN: Final = Path(__file__).with_name("prices.json")
#: Storage is priced by so many requests, the bus and executions by the million.
STORAGE_UNIT, MILLION = 10_000, 1_000_000


class BusPrices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A namespace of the tier Standard: a fixed charge a month, and operations by the million, cheaper the more."""

    month: Decimal
    #: Up to how many operations of the month, and what a million of them costs.
    tiers: list[tuple[int | None, Decimal]]

    def price(self, operations: int, before: int = 0) -> Decimal:
        """Return what operations cost in a month that had so many before them; the fixed charge is not in it."""
        return sum((count * each / MILLION for count, each in self._parts(operations, before)), Decimal())

    def marginal(self) -> Decimal:
        """Return what a million costs once those in the fixed charge are used up."""
        return next((each for _, each in self.tiers if each), Decimal())

    def _parts(self, operations: int, before: int) -> Iterator[tuple[int, Decimal]]:
        position, end = before, before + operations
        for up_to, each in self.tiers:
            reached = end if up_to is None else min(end, up_to)
            if reached > position:
                yield reached - position, each
                position = reached


class Functions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Flex Consumption: on demand, and for instances that are always ready."""

    executions: Decimal
    free_executions: int
    gb_second: Decimal
    free_gb_seconds: int
    ready_gb_second: Decimal
    ready_running_gb_second: Decimal


class Logs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Log Analytics, and alert rules that look into it."""

    #: A GB that is taken in, and how many of them a month are free.
    gb: Decimal
    free_gb: int
    #: A rule a month, by the minutes between two looks.
    alert_rule: dict[int, Decimal]


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of prices."""

    v: Literal[1]
    name: str
    as_of: date
    currency: str
    #: How far the figures can be trusted.
    proof: str
    #: What 10,000 requests of each meter cost.
    requests: dict[str, Decimal]
    bus: BusPrices
    functions: Functions
    logs: Logs

    def __str__(self) -> str:
        return f"{self.name}, {self.currency}, as of {self.as_of:%Y-%m-%d} ({self.proof})"


def load(file: Path | None = None) -> Prices:
    """Return the prices of a file, or those that come with Sluice."""
    path = file or BUILT_IN
    try:
        return msgspec.json.decode(path.read_bytes(), type=Prices)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PricesError(
            f"the prices in {path} cannot be used: {error}; `sluice cost prices` prints a table that can, to start from"
        ) from error
