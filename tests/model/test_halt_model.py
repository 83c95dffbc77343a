"""Every interleaving of a job that is paused and resumed, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.halt_model import Rules, Scope, search

LEAST, SMALL = Scope(chunks=1), Scope()
TWICE = Scope(acts=("pause", "resume", "pause", "resume"), chunks=1)

#: The bug, and the smallest scope that shows it.
BUGS = {
    "the halt row is written before the job's row": ("row_first", SMALL),
    "a message is dropped for its job, whatever its number": ("drops_by_number", SMALL),
    "a slow dispatcher moves the cursor over chunks whose messages are dropped": ("notes_by_number", SMALL),
    "a resume goes on from the cursor alone": ("puts_again", SMALL),
    "a resume puts messages with an older number": ("keeps_number", SMALL),
}


def test_no_chunk_is_missing_after_a_pause_and_a_resume():
    """One dispatcher and one worker, a kill at any write, doubled deliveries."""
    found = search(LEAST)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 6_000


@pytest.mark.ci("a model above 25,000 states")
@pytest.mark.parametrize("scope", [SMALL, TWICE, replace(LEAST, dispatchers=2)], ids=str)
def test_neither_is_one_of_two_or_after_two_pauses(scope):
    """Each dispatcher has the row as it read it, however long ago, and so has the tick."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 25_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it a chunk is missing, by the shortest way there."""
    rule, scope = BUGS[bug]
    found = search(scope, replace(Rules(), **{rule: False}))
    assert found.harm == "missing"
    assert found.way
