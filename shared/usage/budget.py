"""The number of tasks that the day's budget still allows: one term of the decision on concurrency.

It compares the budget with the cost of today's requests so far, as the diaries of all processes have it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from shared.azure import CountedRequest, usage_of_counts
from shared.usage.bill import price
from shared.usage.prices import Prices

#: The rest of the budget must last at least this long: a burst may spend, but the last of it is stretched.
STRETCH: Final = timedelta(minutes=15)
#: A budget slows work but never stops it, because stalled work costs more than its requests.
LEAST_TASKS: Final = 1


def budget_term(budget: Decimal | None, spent: Decimal, task_second: Decimal | None) -> int | None:
    """Return the tasks over the fleet that the day's budget allows, or None if it sets no bound.

    `spent` is the cost of today's requests so far. `task_second` is a task's cost per second, None while unknown.
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
    """The cost of a day until a moment."""

    at: datetime
    amount: Decimal


@dataclass(slots=True, kw_only=True)
class DayBudget:
    """The budget's term of each decision. Each takes one read of the diaries, or none without a budget."""

    budget: Decimal | None
    prices: Prices
    noted_on: Callable[[date], Mapping[CountedRequest, int]]
    _before: Spent | None = field(default=None, init=False)

    def __call__(self, now: datetime, tasks: int) -> int | None:
        """Return the tasks that the budget allows. `tasks` is the number that ran until now, as far as known."""
        if self.budget is None:
            return None
        amount = price(usage_of_counts(self.noted_on(now.date())), self.prices).total
        task_second = _cost_of_task_second(self._before, Spent(now, amount), tasks)
        self._before = Spent(now, amount)
        return budget_term(self.budget, amount, task_second)


def _cost_of_task_second(before: Spent | None, after: Spent, tasks: int) -> Decimal | None:
    """Derive the cost of one task per second from two readings of the same day, or None if they do not show it."""
    if before is None or before.at.date() != after.at.date() or after.at <= before.at or tasks <= 0:
        return None
    seconds = Decimal((after.at - before.at).total_seconds())
    return (after.amount - before.amount) / (seconds * tasks)
