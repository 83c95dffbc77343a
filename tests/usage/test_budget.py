"""The number of tasks that a budget allows."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from shared.usage.diary import LEAST_TASKS, STRETCH, budget_term

MONEY = st.decimals(0, 1000, places=4)
RATE = st.decimals("0.0000001", 1, places=7)


def test_without_a_budget_it_has_nothing_to_say():
    """The other terms decide."""
    assert budget_term(None, Decimal(1_000), Decimal("0.01")) is None


def test_a_spent_budget_slows_and_does_not_stop():
    """One task goes on, so that nothing waits for midnight."""
    assert budget_term(Decimal(1), Decimal(1), None) == LEAST_TASKS
    assert budget_term(Decimal(1), Decimal(2), Decimal("0.01")) == LEAST_TASKS


def test_before_anything_is_known_of_what_tasks_spend_there_is_no_cap():
    """The first task of a day must not be held back by ignorance."""
    assert budget_term(Decimal(1), Decimal(0), None) is None


@given(MONEY, MONEY, RATE)
def test_what_is_left_lasts_as_long_as_it_is_stretched(budget, spent, rate):
    """Whatever is allowed cannot spend the rest sooner, except by the one task that always may."""
    tasks = budget_term(budget, spent, rate)
    assert tasks == LEAST_TASKS or tasks * rate * Decimal(STRETCH.total_seconds()) <= budget - spent


@given(MONEY, MONEY, MONEY, RATE)
def test_who_has_spent_more_is_allowed_no_more(budget, spent, more, rate):
    """The term never grows while money goes."""
    assert budget_term(budget, spent + more, rate) <= budget_term(budget, spent, rate)
