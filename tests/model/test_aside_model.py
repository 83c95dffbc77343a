"""Every interleaving of setting transactions aside and replaying them, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.aside_model import Bug, Scope, search

HIDDEN = {"a transaction is set aside, and no entry is open", "the chunk is stuck"}
#: The scope that shows the bug, and its harms.
BUGS = {
    Bug.RESULT_FIRST: (Scope(losses=0, replays=0), HIDDEN),
    Bug.EXTENDS_ANY: (Scope(losses=0), {"what was accepted is taken back"}),
    Bug.PASSING_RUN_CLOSES: (Scope(losses=0, replays=0), HIDDEN),
    Bug.LANDED_WHEN_DONE: (Scope(kills=0, losses=0, replays=1), HIDDEN),
    Bug.LINES_REPLACED: (Scope(kills=0, losses=0, replays=1), {"an accepted transaction has no line"}),
    Bug.REPLAYED_BESIDE: (
        Scope(kills=0, losses=0, replays=1, has_killer=True),
        {"a process died of what was set aside"},
    ),
}


def test_no_interleaving_takes_back_a_transaction_or_hides_one():
    """Kills, lost leases, a lost bus, and a service that answers by chance."""
    found = search(Scope(losses=0, replays=1))
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little.
    assert found.states > 1_000


def test_no_interleaving_does_where_one_ends_its_process():
    """Two processes die of the chunk, and none of its replay."""
    found = search(Scope(losses=0, replays=1, has_killer=True))
    assert (found.harm, found.way) == ("", ())
    assert found.states > 100


@pytest.mark.ci("a search of many states")
@pytest.mark.parametrize("has_killer", [False, True], ids=["raises", "ends its process"])
def test_no_longer_history_does_either(has_killer):
    """The same, with a lost bus, and two replays that may be under way at once."""
    found = search(Scope(has_killer=has_killer))
    assert (found.harm, found.way) == ("", ())
    assert found.states > 4_000


@pytest.mark.parametrize("bug", Bug, ids=lambda bug: bug.name.lower())
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    scope, harms = BUGS[bug]
    found = search(replace(scope, bug=bug))
    assert found.harm in harms
    assert found.way
