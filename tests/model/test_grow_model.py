"""Every interleaving of a job that grows by stretches, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.grow_model import Rules, Scope, search

DIRECT, FED = Scope(has_feeder=False), Scope()
HALTED = replace(FED, followers=1, acts=("pause", "resume"))

#: The bug, and the smallest scope that shows it.
BUGS = {
    "a job ends while it grows": ("waits_for_end", False, DIRECT, "early"),
    "who puts a stretch is decided on the row as it was read": ("decides_by", "read", DIRECT, "stuck"),
    "each follower puts what it took": ("decides_by", "all", DIRECT, "twice"),
    "only the first stretch is put by its taker": ("decides_by", "none", DIRECT, "stuck"),
    "a dispatcher stops at its own stretch": ("goes_on", False, DIRECT, "stuck"),
    "the feeder removes a ready row that was written again": ("removes_by_etag", False, FED, "stuck"),
    "a paused job takes a stretch": ("stops_at_pause", False, HALTED, "taken"),
    "a growing job that is resumed is running": ("resumes_to_dispatch", False, HALTED, "stuck"),
}


@pytest.mark.parametrize("scope", [DIRECT, FED, replace(DIRECT, stretches=3)], ids=str)
def test_each_chunk_is_put_once_and_the_job_ends_with_its_end(scope):
    """Two followers, a feeder that has a ready row at any time, and nobody is killed."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 1_000


def test_a_kill_at_any_step_leaves_no_job_that_the_tick_cannot_end():
    """The chunks may be put twice then, and count once."""
    found = search(replace(FED, kills=1))
    assert (found.harm, found.way) == ("", ())
    assert found.states > 20_000


@pytest.mark.ci("a model above 25,000 states")
@pytest.mark.parametrize(
    "scope", [HALTED, replace(HALTED, kills=1), replace(HALTED, followers=2), replace(FED, kills=2, losses=1)], ids=str
)
def test_nor_do_a_pause_and_a_lost_message(scope):
    """A resume puts what is open, and goes on with the stretches that came meanwhile."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())
    assert found.states > 50_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    rule, value, scope, harm = BUGS[bug]
    found = search(scope, replace(Rules(), **{rule: value}))
    assert found.harm == harm
    assert found.way
