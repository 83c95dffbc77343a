"""Every second after the death of a drain, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.redelivery_model import Rules, search

#: The bug, the rules that have it, and what it does.
BUGS = {
    "a permit that comes again is followed as a first one": ({"counts_deliveries": False}, "slow"),
    "its drain ends at a leased slot": ({"stays_at_a_leased_slot": False}, "slow"),
    "its drain ends at an empty receive": ({"stays_at_an_empty_receive": False}, "slow"),
    "a permit is completed when it was received": ({"completes_at_the_end": False}, "slow"),
    "a permit lives for less than a drain": ({"life": 120}, "slow"),
    "a permit comes once": ({"most_deliveries": 1}, "slow"),
    "a permit comes twice, and two drains are killed": ({"most_deliveries": 2}, "slow"),
    "a slot is leased for a minute": ({"lease": 60}, "slow"),
    "a message is hidden for a minute": ({"hidden": 60}, "slow"),
    "who gets a permit again breaks the lease": ({"waits_for_the_lease": False}, "over"),
}


@pytest.mark.ci("a model above 25,000 states")
def test_whatever_a_killed_drain_had_is_done_without_a_tick():
    """Two drains are killed, at any second, and the permit may come late: the message is done, by one at a time."""
    found = search()
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little.
    assert found.states > 10_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm."""
    changed, expected = BUGS[bug]
    found = search(replace(Rules(), **changed))
    assert found.harm == expected
