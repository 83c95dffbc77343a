"""Every interleaving of the urgent lane's protocol, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.lane_model import Rules, search

BUGS = ["announces_first", "announces_in_time", "waits_for_puts", "removes_what_it_read"]


def test_no_interleaving_leaves_a_message_on_a_lane_that_no_task_asks():
    """Two puts by a dispatch whose knowledge is as old as can be, a tick that is as slow as can be, drains at any time."""
    found = search()
    assert (found.harm, found.way) == ("", ())
    assert found.states > 1_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_sees_a_bug(bug):
    """Each part of the protocol is there for a reason."""
    assert search(replace(Rules(), **{bug: False})).harm == "stranded"
