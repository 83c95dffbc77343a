"""Every interleaving of a job that is paused and resumed, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.halt_model import Rules, Scope, search

STOPPED = Scope(acts=("pause", "stop"), chunks=1)
LEAST, SMALL = Scope(chunks=1), Scope()
TWICE = Scope(acts=("pause", "resume", "pause", "resume"), chunks=1)

#: The bug, and the smallest scope that shows it.
BUGS = {
    "the halt row is written before the job's row": ("row_first", SMALL, "missing"),
    "a message is dropped for its job, whatever its number": ("drops_by_number", SMALL, "missing"),
    "a slow dispatcher moves the cursor over chunks whose messages are dropped": ("notes_by_number", SMALL, "missing"),
    "a slow dispatcher notes in a stopped job": ("notes_by_number", STOPPED, "moved"),
    "a result of a stopped job is credited": ("seals", STOPPED, "moved"),
    "a resume goes on from the cursor alone": ("puts_again", SMALL, "missing"),
    "a resume puts messages with an older number": ("keeps_number", SMALL, "missing"),
}


def test_no_chunk_is_missing_after_a_pause_and_a_resume():
    """One dispatcher and one worker, a kill at any write, doubled deliveries."""
    found = search(LEAST)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 6_000


def test_a_stopped_job_keeps_its_row():
    """However late a result, a dispatcher's note or a tick is."""
    found = search(STOPPED)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 2_500


@pytest.mark.ci("a model above 25,000 states")
@pytest.mark.parametrize("scope", [SMALL, TWICE, replace(LEAST, dispatchers=2)], ids=str)
def test_neither_is_one_of_two_or_after_two_pauses(scope):
    """Each dispatcher has the row as it read it, however long ago, and so has the tick."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 25_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    rule, scope, harm = BUGS[bug]
    found = search(scope, replace(Rules(), **{rule: False}))
    assert found.harm == harm
    assert found.way
