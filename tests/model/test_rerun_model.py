"""Every interleaving of a job that runs again, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.rerun_model import Rules, Scope, search

ENDED, PAUSED = Scope(chunks=1), Scope(acts=("pause", "rerun"), chunks=1, parks=None, replays=0)
NEWEST = Scope(acts=("pause", "newest"), parks=None, replays=0)
TWICE = Scope(acts=("rerun", "rerun"), chunks=1, replays=0, losses=0)
TWO = Scope(doubles=False)

#: The bug, and the smallest scope that shows it.
BUGS = {
    "a row of the run before counts": ("rows_by_run", ENDED, "stuck"),
    "a result of the run before is credited": ("results_by_run", PAUSED, "counts"),
    "a worker takes the row of the run before for its own": ("done_by_revision", ENDED, "stuck"),
    "the tick takes it for a chunk that has ended": ("open_by_run", ENDED, "stuck"),
    "the counts of the run before stay": ("counts_anew", ENDED, "counts"),
    "a rerun keeps the revision": ("raises_revision", ENDED, "counts"),
    "a rerun writes its totals over those of the run before": ("has_partition", ENDED, "replaced"),
    "the finish adds up rows of the run before": ("finish_by_run", NEWEST, "mixed"),
    "a settler writes what it decided before the rerun": ("has_etag", ENDED, "replaced"),
}


@pytest.mark.parametrize(
    ("scope", "states"),
    [(ENDED, 15_000), (PAUSED, 800), (NEWEST, 5_000), (replace(NEWEST, acts=("newest", "pause", "newest")), 4_000)],
    ids=["ended", "paused", "newest", "newest twice"],
)
def test_a_rerun_ends_with_its_own_rows_alone(scope, states):
    """Late and doubled results, a lost one, replays of either run, slow settlers and finishers, a kill before the messages."""
    found = search(scope)
    assert (found.harm, found.way) == ("", ())
    assert found.states > states


@pytest.mark.ci("a model above 25,000 states")
@pytest.mark.parametrize("scope", [TWICE, replace(TWO, acts=("pause", "rerun"))], ids=["twice", "two chunks"])
def test_neither_do_two_reruns_or_two_chunks_mix(scope):
    """One of which may be parked."""
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
