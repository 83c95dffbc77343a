"""A short night in the tests; `python -m tests.night` has long ones, by many seeds."""

import pytest

from tests.night.__main__ import one_night


@pytest.mark.ci("it works for minutes at deployed settings")
def test_everything_at_once_counts_everything_once():
    """Kills, lost replies, storage that stands still or starts again, beside a pause, a stop, replays, a sale and a flood."""
    figures, found = one_night(seed=1, minutes=1, size=4_000)
    assert found == [], figures
