"""Every hostile case in one go, among honest jobs, with a publisher's rights, at the deployed concurrency."""

import pytest

from tests.outside import campaign

#: All of it together is one fixture; a busy machine takes longer than for a usual test.
#: A deployed instance has 2,048 MiB; no submissions take a process further than this.
MOST_MIB = 512


@pytest.fixture(scope="module")
def came(outside):
    """What came of all of them."""
    return campaign.run(outside, campaign.all_cases())


def test_each_case_ends_in_its_documented_reason_and_honest_jobs_complete(came):
    """Parked under its reason, or its job complete with the rejected lines under theirs; nobody else is harmed."""
    assert came.problems == []
    assert len(came.cases) >= 120


def test_no_refusal_is_tried_again(came):
    """The first delivery that begins decides. A process may give back what it has not begun: a slow machine is no fault."""
    assert came.failed == []


def test_the_memory_of_the_process_is_bounded(came):
    """One process ran all of it at once."""
    assert came.peak_mib <= MOST_MIB
