"""Every order of submissions, feed calls and killed feeders, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.feed_model import Rules, search

#: The bug, and the rule that has it.
BUGS = {
    "a feeder that ends leaves no call": "has_last_call",
    "the row of a dead one is left": "removes_row_of_dead",
    "a view of the row is older than the last call": "is_view_young",
    "a call is completed when it was received": "completes_at_the_end",
    "a call that finds the lease taken ends": "taken_call_comes_again",
    "the submission is deleted first": "deletes_submission_last",
    "the call goes out before the row": "calls_after_row",
}


def test_no_job_waits_without_a_feeder_or_a_call_that_brings_one():
    """Two submissions, two feeders, and a process killed at any step; the bus becomes quiet."""
    found = search(Rules(kills=1))
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little.
    assert found.states > 10_000


@pytest.mark.ci("a model above 25,000 states")
def test_the_same_with_two_kills():
    """The second kill may be that of whoever came for the first."""
    found = search()
    assert (found.harm, found.way) == ("", ())
    assert found.states > 100_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it a job is left to the tick."""
    assert search(replace(Rules(), **{BUGS[bug]: False})).harm == "stranded"
