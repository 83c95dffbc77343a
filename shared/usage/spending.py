"""What today has cost so far, as all processes noted it, and what the budget of the day allows from here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal

from shared.usage.bill import price, usage_of_counts
from shared.usage.budget import budget_term
from shared.usage.prices import Prices
from shared.usage.tally import Counted


@dataclass(frozen=True, slots=True)
class Spent:
    """What a day had cost at a moment."""

    at: datetime
    amount: Decimal


@dataclass(slots=True, kw_only=True)
class DayBudget:
    """The budget's term of each decision; asks once for each, and never where there is no budget."""

    budget: Decimal | None
    prices: Prices
    noted_on: Callable[[date], Mapping[Counted, int]]
    _before: Spent | None = field(default=None, init=False)

    def __call__(self, now: datetime, tasks: int) -> int | None:
        """Return the tasks that the budget allows; `tasks` ran until now, as far as is known."""
        if self.budget is None:
            return None
        amount = price(usage_of_counts(self.noted_on(now.date())), self.prices).total
        task_second = _of_a_task(self._before, Spent(now, amount), tasks)
        self._before = Spent(now, amount)
        return budget_term(self.budget, amount, task_second)


def _of_a_task(before: Spent | None, after: Spent, tasks: int) -> Decimal | None:
    """Return what one task spent in a second between two looks of the same day; None where it cannot be told."""
    if before is None or before.at.date() != after.at.date() or after.at <= before.at or tasks <= 0:
        return None
    seconds = Decimal((after.at - before.at).total_seconds())
    return (after.amount - before.amount) / (seconds * tasks)
