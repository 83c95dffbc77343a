"""The one back-off: how often, how long, and with which pauses."""

import pytest

from shared.clock import LOST_RACES, Retry
from shared.errors import ContentionError, StorageUnavailableError


def waiting(**options):
    """Return a retry without chance, and the list of its pauses."""
    pauses = []
    return Retry(pause=pauses.append, jitter=lambda: 1.0, **options), pauses


def test_the_first_lost_race_is_repeated_at_once_and_pauses_double_up_to_a_second():
    """Most races are lost once; from the second on, writers must come apart."""
    retry, pauses = waiting()
    assert list(retry.tries()) == list(range(1, 21))
    assert [round(one, 3) for one in pauses] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, *[1.0] * 11]


def test_a_pause_is_a_random_part_of_the_longest():
    """Around the limit, those that collided would collide again."""
    pauses = []
    retry = Retry(pause=pauses.append)
    for _ in range(50):
        list(retry.tries())
    last = pauses[17::18]
    assert 0 <= min(last) < LOST_RACES.longest / 3
    assert LOST_RACES.longest / 1.5 < max(last) <= LOST_RACES.longest


def test_a_pause_that_sees_the_end_of_the_process_ends_the_tries():
    """A process that stops must not wait for storage."""
    assert list(Retry(pause=lambda _seconds: True).tries()) == [1, 2]


def test_fewer_attempts_than_one_are_refused():
    """A writer that never writes is a mistake of its caller."""
    with pytest.raises(ValueError, match="attempts is 0, expected 1 or more"):
        Retry(attempts=0)


def test_lost_races_are_bounded_and_outages_are_not_counted_among_them():
    """An outage ends when its time is up, a race when another writer was first too often."""
    retry, _ = waiting(attempts=2, within=lambda: True)
    outcomes = iter([StorageUnavailableError("away"), False, StorageUnavailableError("away"), False])

    def attempt(_number):
        found = next(outcomes)
        if isinstance(found, Exception):
            raise found
        return found

    with pytest.raises(ContentionError, match="could not count: other writers were first 2 times in a row"):
        retry.until_done(attempt, "count")


def test_an_outage_is_retried_only_while_there_is_time():
    """Without time, its first error is the caller's."""
    left = iter([True, True, False])
    numbers = []

    def attempt(number):
        numbers.append(number)
        raise StorageUnavailableError("away")

    retry, pauses = waiting(within=lambda: next(left))
    with pytest.raises(StorageUnavailableError):
        retry.until_done(attempt, "count")
    assert (numbers, pauses) == ([0, 1, 2], [0.01])
    with pytest.raises(StorageUnavailableError):
        waiting()[0].until_done(attempt, "count")
    assert numbers == [0, 1, 2, 0]
