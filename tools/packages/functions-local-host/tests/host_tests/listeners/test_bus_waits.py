from datetime import timedelta

import pytest
from functions_local_host.bus_lock import renewal_wait
from functions_local_host.bus_reconnect import reconnect_wait


@pytest.mark.parametrize(("remaining", "wait"), [(300, 290), (20, 10), (10, 5), (3, 1.5), (0, 0.1), (-5, 0.1)])
def test_locks_are_renewed_ten_seconds_ahead_or_at_half(remaining, wait):
    """A lock is asked for again before it ends, however short it is."""
    assert renewal_wait(timedelta(seconds=remaining)) == timedelta(seconds=wait)


def test_reconnections_wait_longer_up_to_half_a_minute():
    """A broker that is down for long is not hammered."""
    waits = [reconnect_wait(n).total_seconds() for n in (0, 1, 2, 6, 7, 100)]
    assert waits == [0.25, 0.5, 1, 16, 30, 30]
