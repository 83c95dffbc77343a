"""Every interleaving of a job's start, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.start_model import Rules, Scope, search

WHOLE = SMALL = Scope(workers=2)
ALONE = Scope(scripts=(("open", "close"),), workers=1)
BEFORE = Scope(workers=2, before=True)

#: The bug, the smallest scope that shows it, and what it does.
BUGS = {
    "no note is written": ("writes_the_note", ALONE, "stuck"),
    "the note is written after the chunks": ("notes_before_putting", ALONE, "stuck"),
    "whoever asks is believed": ("believes_the_row", SMALL, "early"),
    "a job that is refused stays in planning": ("puts_behind_again", BEFORE, "stuck"),
    "the epoch that the job met is written anew": ("first_epoch_stays", ALONE, "stuck"),
    "an old reading that says open is believed": ("reads_again_after_rows", SMALL, "early"),
    "the row is written without a condition": ("writes_conditionally", SMALL, "stuck"),
    "a release writes no pointer": ("points_before_noting", ALONE, "stuck"),
    "whoever else starts a held job writes no pointer": ("points_when_held", ALONE, "stuck"),
    "the pointer goes before the held row is there": ("leaves_after_keeping", BEFORE, "stuck"),
    "a pointer that was written again is removed": ("removes_by_version", SMALL, "stuck"),
}


@pytest.mark.ci("a model above 25,000 states")
def test_no_interleaving_starts_a_job_early_or_leaves_it_behind():
    """Two openers and two workers that begin, ask and end at any time: every state is searched."""
    found = search(WHOLE)
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little; docs/gate.md says how much this one reaches.
    assert found.states > 80_000


@pytest.mark.ci("a model above 25,000 states")
def test_neither_do_three_workers_at_one_opening():
    """An accept, a release and a tick at the same time, each with its view of the pointer."""
    found = search(Scope(scripts=(("open",),), workers=3))
    assert (found.harm, found.way) == ("", ())
    assert found.states > 150_000


def test_a_job_of_a_version_without_notes_is_neither_started_early_nor_left_in_planning():
    """Its dispatch message is refused at the door by now, and its submission is gone: the pointer leads to it."""
    found = search(BEFORE)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 30_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    rule, scope, harm = BUGS[bug]
    found = search(scope, replace(Rules(), **{rule: False}))
    assert found.harm == harm
    assert found.way
