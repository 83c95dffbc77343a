"""Every storage request of settling and finishing meets every fault, and the job comes out right all the same."""

import os

import pytest

from tests.faults.plan import MODES, Plan
from tests.ledger.history import History

#: All requests in all modes take five minutes; the usual run takes every n-th, each mode beginning at another one.
STRIDE = 1 if os.environ.get("FAULTS") == "all" else 20


def requests_of_a_history():
    """Return how many requests a history without faults makes."""
    plan = Plan()
    History(plan, counts_deliveries=True).run()
    return plan.count


@pytest.fixture(scope="module")
def length():
    """How many requests there are to fail."""
    found = requests_of_a_history()
    assert found > 40
    return found


@pytest.mark.parametrize("mode", MODES)
def test_a_fault_at_any_request_leaves_nothing_lost_or_counted_twice(length, mode, is_usual):
    """After the fault everything is delivered again, and the totals, outputs and events are those of a quiet day."""
    first = MODES.index(mode) % STRIDE
    for k in range(first + 1, length + 1, STRIDE * (10 if is_usual else 1)):
        plan = Plan.of(k, mode)
        try:
            History(plan, counts_deliveries=k % 2 == 0).run()
        except BaseException as error:
            error.add_note(f"request {k}, {mode}, at {plan.sites[k - 1]}")
            raise
        assert plan.fired
