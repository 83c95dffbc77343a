"""Every interleaving of a release by slices, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.slice_model import Rules, Scope, search

KILLED, WHOLE = Scope(workers=3), Scope(workers=3, kills=False)
SMALL, ALIVE = Scope(workers=2), Scope(workers=2, kills=False)

#: The bug, the smallest scope that shows it, and what it does.
BUGS = {
    "there are no leases": ("leases", ALIVE, "twice"),
    "the rows are listed before the lease is taken": ("lists_under_the_lease", ALIVE, "twice"),
    "the further signal goes before the lease is free": ("frees_before_signalling", ALIVE, "slow"),
    "the rows go before the entries are put": ("puts_before_deleting", SMALL, "stuck"),
    "a lease outlives its holder": ("leases_end", SMALL, "stuck"),
    "the announcer leaves the slices to others": ("announcer_takes_slices", SMALL, "stuck"),
}


@pytest.mark.parametrize(
    ("scope", "least"),
    [
        pytest.param(KILLED, 10_000, marks=pytest.mark.ci("a model above 25,000 states")),
        (SMALL, 20_000),
        (WHOLE, 1_000),
    ],
    ids=["with kills", "two with kills", "without"],
)
def test_no_interleaving_leaves_an_entry_behind_or_puts_one_twice_without_a_kill(scope, least):
    """Two slices and three workers that begin, announce and end at any time: every state is searched."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little.
    assert found.states > least


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    rule, scope, harm = BUGS[bug]
    found = search(scope, replace(Rules(), **{rule: False}))
    assert found.harm == harm
    assert found.way
