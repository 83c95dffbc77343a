"""Every order in which a need of a job is written and removed, with kills, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.watch_model import Rules, Scope, search

#: The bug, and what it does.
BUGS = {
    "the tick writes no need again": ("tells_at_a_look", "left"),
    "a need that ended is forgotten": ("marks_what_ended", "left"),
    "the pointer goes although a slow process may write": ("waits_for_the_slow", "left"),
    "a replay leaves no pointer": ("points_at_a_replay", "left"),
}


def test_once_all_is_quiet_the_watch_has_what_the_row_says():
    """Writes come in any order, and two of them never; each state is searched."""
    found = search(Scope())
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little.
    assert found.states > 3_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    rule, harm = BUGS[bug]
    found = search(Scope(), replace(Rules(), **{rule: False}))
    assert found.harm in {harm, "stuck"}
    assert found.way
