"""What today has cost so far, as all processes noted it, and what the budget of the day allows from here.

How many tasks a budget for the day allows: one term of the decision on concurrency; pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from shared.azure import CountedRequest, usage_of_counts
from shared.usage.bill import price
from shared.usage.prices import Prices

#: What is left may not be gone sooner than this: a burst may spend, but the last of it is stretched.
STRETCH: Final = timedelta(minutes=15)
#: A budget slows, it never stops: work that stands still costs more than the requests that it is made of.
LEAST_TASKS: Final = 1


def budget_term(budget: Decimal | None, spent: Decimal, task_second: Decimal | None) -> int | None:
    """Return the tasks over the fleet that the budget of the day allows, None where it has nothing to say.

    `spent` is what today's requests cost so far, `task_second` what one task spends in a second, None while unknown.
    """
    if budget is None:
        return None
    left = budget - spent
    if left <= 0:
        return LEAST_TASKS
    if not task_second or task_second <= 0:
        return None
    return max(LEAST_TASKS, int(left / (task_second * Decimal(STRETCH.total_seconds()))))


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
    noted_on: Callable[[date], Mapping[CountedRequest, int]]
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
