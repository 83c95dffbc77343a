"""What the jobs of `tests.benchmarks.work` do, as the app's own processes load it."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Self

from shared.workloads import Line
from shared.workloads.billing import UsageRecord


class Etl:
    """A line for each transaction, and no totals."""

    name, transaction, sums = "etl", UsageRecord, ("quantity",)

    @classmethod
    def configured(cls, _settings: Mapping[str, str]) -> Self:
        """Return it."""
        return cls()

    def map(self, usage: UsageRecord, _number: int) -> Decimal:
        """Return the quantity."""
        return usage.quantity

    def lines(self, usage: UsageRecord, number: int, value: Decimal) -> Iterator[Line]:
        """Yield what it was."""
        yield Line({"number": number, "account": usage.account, "quantity": str(value)})
