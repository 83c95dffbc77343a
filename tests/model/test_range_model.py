"""Every interleaving of a file that is cut by ranges, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.range_model import Rules, Scope, search

SMALL = Scope()
BLANK = Scope(blank=frozenset({1, 3}))
KILLED = replace(SMALL, kills=1)
LOST = replace(SMALL, losses=1)
PAUSED = replace(SMALL, acts=("pause", "resume"))

#: The bug, and the smallest scope that shows it.
BUGS = {
    "the row is read before the range is written": ("reads_row", "before", SMALL, "stuck"),
    "stretches are taken as they are cut": ("takes_in_order", False, SMALL, "wrong"),
    "nobody ends the job": ("ends", False, SMALL, "stuck"),
    "no range calls a later one": ("calls_first", False, SMALL, "stuck"),
    "the tick looks for no range": ("tick_repeats", False, LOST, "stuck"),
}


@pytest.mark.parametrize("scope", [SMALL, BLANK, replace(SMALL, workers=3)], ids=str)
def test_each_range_is_taken_once_in_its_order_and_the_last_one_ends_the_job(scope):
    """Nobody is killed, no message is lost, and the tick is not needed."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 100


@pytest.mark.parametrize("scope", [KILLED, LOST, PAUSED, replace(BLANK, kills=1, losses=1)], ids=str)
def test_nor_does_a_kill_a_loss_or_a_pause_leave_it_for_good(scope):
    """What comes again finds what is there, and the tick puts what is missing."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 500


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    rule, value, scope, harm = BUGS[bug]
    found = search(scope, replace(Rules(), **{rule: value}))
    assert found.harm == harm
    assert found.way
