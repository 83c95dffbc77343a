"""All hostile submissions at once in one process, as many messages at a time as are deployed."""

import os

import pytest

from tests.process.crowded import apart
from tests.process.hostile_crowd import crowd

MOST_MEMORY = 512 * 1024 * 1024
#: It takes half a minute of CPU; where ten processes wait for each core it would not end in time, and say nothing.
pytestmark = pytest.mark.skipif(os.getloadavg()[0] > 8 * (os.cpu_count() or 1), reason="the machine is overloaded")


@pytest.mark.timeout(600)
def test_no_crowd_of_submissions_takes_much_memory():
    """Worker, finisher and intake in one process, 24 messages at a time: below 512 MiB, and each ends as it should."""
    sent = list(crowd())
    found = apart(sent)
    assert found["peak"] <= MOST_MEMORY
    assert found["states"] == {one.job: one.state for one in sent}
    # Nothing failed on the way but what was to be paused.
    assert [one for one in found["failures"] if "SLUICE_MERGED_MIB" not in one] == []
