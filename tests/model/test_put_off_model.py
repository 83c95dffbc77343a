"""Every interleaving of deliveries of a chunk that waits for a service, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.put_off_model import Bug, Scope, search

#: The scope that shows the bug, and its harms.
BUGS = {
    Bug.NO_VERSION: (Scope(kills=0, outages=0), {"a kept answer is lost"}),
    Bug.OUTAGE_COUNTS: (Scope(kills=0), {"an outage parked a transaction"}),
    Bug.FORGETS_TRIES: (Scope(kills=0, outages=0), {"the chunk never ends"}),
    Bug.GIVES_UP_THE_MESSAGE: (Scope(kills=2, outages=0), {"the chunk is stuck"}),
}


def test_no_interleaving_loses_an_answer_or_parks_in_an_outage():
    """And from every state it ends, however often a delivery was killed before."""
    found = search(Scope())
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little.
    assert found.states > 500


@pytest.mark.ci("a search of many states")
def test_no_longer_history_does_either():
    """The same, with two kills and two outages."""
    found = search(Scope(kills=2, outages=2))
    assert (found.harm, found.way) == ("", ())
    assert found.states > 1_000


@pytest.mark.parametrize("bug", Bug, ids=lambda bug: bug.name.lower())
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    scope, harms = BUGS[bug]
    found = search(replace(scope, bug=bug))
    assert found.harm in harms
    assert found.way
