"""Every history of a chunk behind other work, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.backlog_model import Rules, Scope, search

#: The larger scopes of docs/ledger.md take a minute.
SCOPES = {"in order": Scope(steps=4), "in any order": Scope(in_order=False, front=2, steps=3)}

#: The bug, and what it does.
BUGS = {
    "the depth decides": ("asks_the_front", "forgotten"),
    "the row does not keep the new put": ("notes_the_put", "impatient"),
    "a full front of failed deliveries counts as drained": ("knows_what_it_does_not_see", "impatient"),
}


@pytest.mark.parametrize("scope", SCOPES)
def test_nothing_lost_stays_lost_and_what_waits_is_left_alone(scope):
    """With losses and crashes at any moment, and work that never ends."""
    found = search(SCOPES[scope])
    assert (found.harm, found.way) == ("", ())
    assert found.states > 1_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    rule, harm = BUGS[bug]
    assert search(Scope(), replace(Rules(), **{rule: False})).harm == harm
