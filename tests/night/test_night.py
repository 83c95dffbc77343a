"""A short night in the tests; `python -m tests.night` has long ones, by many seeds."""

import pytest

from tests.night import campaign
from tests.night.__main__ import one_night


@pytest.mark.ci("it works for minutes at deployed settings")
@pytest.mark.timeout(1800)
def test_everything_at_once_counts_everything_once(monkeypatch):
    """Kills, lost replies, storage that stands still or starts again, beside a pause, a stop, replays, a sale and a flood."""
    # What does not come is a breach with its name, before the limit of the test ends it without one.
    monkeypatch.setattr(campaign, "PATIENCE", 600)
    figures, found = one_night(seed=1, minutes=1, size=4_000)
    assert found == [], figures
