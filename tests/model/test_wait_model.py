"""Every interleaving of a job that waits for others, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.wait_model import Rules, Scope, search

SMALL = Scope()
QUIET = Scope(is_quiet=True, walkers=1)
#: The one that waits is accepted first.
FIRST, QUIET_FIRST = replace(SMALL, is_first=True), replace(QUIET, is_first=True)
#: The bug, the smallest scope that shows it, and what it does.
BUGS = {
    "the name is written without a condition": ("writes_conditionally", QUIET, "slow"),
    "a name that is there is taken for an end": ("believes_the_state", SMALL, "early"),
    "the pointer goes with its first look": ("keeps_its_pointer", SMALL, "stuck"),
    "the hints are of the row before the end": ("hints_from_the_written_row", QUIET, "slow"),
    "a tombstone does not say how it ended": ("tombstones_say_how", SMALL, "stuck"),
    "a row begins without the names before it": ("rows_begin_with_names", QUIET_FIRST, "slow"),
}


@pytest.mark.parametrize("scope", [SMALL, FIRST])
def test_no_interleaving_starts_it_early_or_leaves_it_behind(scope):
    """Two others, two walkers that end at any time, hints that are lost: every state is searched."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 1_000


@pytest.mark.parametrize("scope", [QUIET, QUIET_FIRST])
def test_with_every_hint_nothing_waits_for_the_pointer(scope):
    """Where nobody ends early and no hint is lost, the last end starts it, in whatever order they were submitted."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    rule, scope, harm = BUGS[bug]
    found = search(scope, replace(Rules(), **{rule: False}))
    assert found.harm == harm
    assert len(found.way) > 1
