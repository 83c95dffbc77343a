"""The limit on an entity's operations."""

import pytest
from servicebus_local.refusal import Refusal
from servicebus_local.throttle import Allowance


def test_a_second_has_so_many_operations_and_no_more():
    """What one second left over is lost, and the next one begins anew."""
    allowance = Allowance("orders", 2)
    asked = [10.0, 10.1, 10.9, 11.0, 15.2, 15.3, 15.4]
    assert [allowance.take(now) for now in asked] == [True, True, False, True, True, True, False]


def test_a_batch_passes_whole_and_uses_up_what_it_is():
    """A batch that is larger than a second's operations would never pass otherwise. What is too much is forgiven."""
    allowance = Allowance("orders", 3)
    asked = [(1.0, 2), (1.1, 5), (1.2, 1), (2.0, 1), (2.1, 1), (2.2, 1), (2.3, 1)]
    assert [allowance.take(now, count) for now, count in asked] == [True, True, False, True, True, True, False]


def test_a_refusal_has_the_service_s_condition_status_and_code():
    """Clients go by the condition, people by the code."""
    allowance = Allowance("orders", 1)
    allowance.demand(1.0)
    with pytest.raises(Refusal, match=r"entity orders is being throttled.*50009") as refused:
        allowance.demand(1.5)
    assert (refused.value.condition, refused.value.status) == ("com.microsoft:server-busy", 503)
