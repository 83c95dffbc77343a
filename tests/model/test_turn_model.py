"""Every interleaving of processes that start at once, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.turn_model import Process, Rules, Scope, first_state, harm, search

FALLING, RISING = Scope(decisions=(3, 1)), Scope(decisions=(1, 3))
STILL = Scope(decisions=(3,), processes=3, changes=0)
#: The bug, and a scope that shows it.
BUGS = {
    "a process trusts that it is alone": ("leases", STILL),
    "a process that knows no decision takes what it gets": ("one_while_unread", STILL),
    "a slot is given away while its messages run": ("keeps_what_it_uses", STILL),
    "each part is rounded up": ("shares_exactly", STILL),
}


@pytest.mark.parametrize("scope", [FALLING, RISING, STILL])
def test_no_interleaving_has_more_in_work_than_was_decided(scope):
    """Processes that start, are killed and start again at any moment, whatever they have read: every state is searched."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 300


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it more is in work than was decided."""
    rule, scope = BUGS[bug]
    found = search(scope, replace(Rules(), **{rule: False}))
    assert found.harm == "over"
    assert len(found.way) > 1


def test_the_check_objects_to_a_world_that_is_wrong():
    """It fails on a state that was made to violate it, and passes its healthy twin."""
    start = first_state(STILL)
    assert harm(STILL, start._replace(processes=(Process(3, 2), Process(3, 1), Process()))) == ""
    assert harm(STILL, start._replace(processes=(Process(3, 2), Process(3, 2), Process()))) == "over"
