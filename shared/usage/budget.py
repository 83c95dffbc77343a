"""How many tasks a budget for the day allows: one term of the decision on concurrency; pure."""

from datetime import timedelta
from decimal import Decimal
from typing import Final

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
