"""All hostile submissions at once in one process, as many messages at a time as are deployed."""

import pytest

from tests.process.crowded import apart
from tests.process.hostile_crowd import crowd

MOST_MEMORY = 512 * 1024 * 1024
pytestmark = pytest.mark.ci("half a minute of CPU")


def test_no_crowd_of_submissions_takes_much_memory():
    """Worker, finisher and intake in one process, 24 messages at a time: below 512 MiB, and each ends as it should."""
    sent = list(crowd())
    found = apart(sent)
    assert found["peak"] <= MOST_MEMORY
    assert found["states"] == {one.job: one.state for one in sent}
    # Nothing failed on the way. On a slow machine some wait too long for memory, and come again.
    assert [one for one in found["failures"] if not one.endswith("the message is redelivered")] == []
