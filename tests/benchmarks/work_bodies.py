"""What the jobs of `tests.benchmarks.work` do, as the app's own processes load it."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Self

from shared.workloads import Line
from shared.workloads.billing import UsageRecord
from tests.benchmarks.work_checker import number_of

#: Settings of the jobs with one bad transaction: a file of their calls, one that is there once the code is mended, and which it is.
CALLS, MENDED, BAD = "WORK_CALLS", "WORK_MENDED", "WORK_BAD"


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


class Faulty:
    """Adds up quantities, notes each call, and fails at one transaction until its code is mended."""

    name, transaction, partial, sums = "faulty", UsageRecord, dict[str, Decimal], ("quantity",)
    error: type[BaseException] = KeyError

    @classmethod
    def configured(cls, settings: Mapping[str, str]) -> Self:
        """Return it with its files."""
        made = cls()
        made._calls = os.open(f"{settings[CALLS]}-{cls.name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        made._mended, made._bad = Path(settings[MENDED]), int(settings[BAD])
        return made

    def map(self, usage: UsageRecord, _number: int) -> Decimal:
        """Return the quantity."""
        number = number_of(usage.account)
        os.write(self._calls, b"%08d\n" % number)
        if number == self._bad and not self._mended.exists():
            raise self.error
        return usage.quantity

    def combine(self, mapped: list[Decimal]) -> dict[str, Decimal]:
        """Add up."""
        return {"all": sum(mapped, Decimal())}

    def merge(self, left: dict[str, Decimal], right: dict[str, Decimal]) -> dict[str, Decimal]:
        """Add up."""
        return {"all": left.get("all", Decimal()) + right.get("all", Decimal())}

    def finish(self, partial: dict[str, Decimal]) -> Iterator[Line]:
        """Yield the sum."""
        yield Line({"quantity": str(partial["all"])})


class Exiting(Faulty):
    """One whose library ends the program."""

    name, error = "exiting", SystemExit


class Cancelled(Faulty):
    """One whose library cancels its task."""

    name, error = "cancelled", asyncio.CancelledError
