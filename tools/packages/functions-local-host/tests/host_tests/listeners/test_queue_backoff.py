from datetime import timedelta
from itertools import pairwise

import pytest
from functions_local_host.message_lease import renewal_wait
from functions_local_host.queue_backoff import HIGHEST_FACTOR, LOWEST_FACTOR, empty_wait
from hypothesis import given, strategies as st

MINUTE = timedelta(minutes=1)
FACTORS = st.floats(LOWEST_FACTOR, HIGHEST_FACTOR)


def test_waits_double_from_100_ms_to_the_longest_interval():
    """With an even random factor the waits are those that the real host was seen to make."""
    waits = [empty_wait(n, MINUTE, 1.0) / timedelta(milliseconds=1) for n in range(12)]
    assert waits == [100, 200, 300, 500, 900, 1700, 3300, 6500, 12900, 25700, 51300, 60000]


@given(st.integers(0, 10_000), FACTORS, st.integers(100, 3_600_000))
def test_no_wait_is_shorter_than_100_ms_or_longer_than_the_longest(earlier, factor, longest):
    """Whatever the randomness, a queue is asked at most ten times a second and at least once an interval."""
    longest_wait = timedelta(milliseconds=longest)
    assert timedelta(milliseconds=100) <= empty_wait(earlier, longest_wait, factor) <= longest_wait


@given(st.lists(FACTORS, min_size=3, max_size=30))
def test_waits_never_shrink_while_the_queue_stays_empty(factors):
    """The random factor is too small to turn the doubling round."""
    waits = [empty_wait(n, MINUTE, factor) for n, factor in enumerate(factors)]
    assert all(earlier <= later for earlier, later in pairwise(waits))


@pytest.mark.parametrize(("failures", "minutes"), [(0, 5), (1, 2.5), (2, 1.25), (3, 1), (9, 1)])
def test_failed_renewals_come_sooner_down_to_a_minute(failures, minutes):
    """The ten-minute lease is renewed every five minutes, and twice as soon after each failure."""
    assert renewal_wait(timedelta(minutes=10), failures) == timedelta(minutes=minutes)


@given(st.integers(1, 3600), st.integers(0, 20))
def test_a_renewal_always_comes_before_the_lease_ends(seconds, failures):
    """Also for the short leases of tests."""
    lease = timedelta(seconds=seconds)
    assert timedelta(0) < renewal_wait(lease, failures) <= lease / 2
