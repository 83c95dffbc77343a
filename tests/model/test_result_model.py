"""Every interleaving of results on their way into the ledger, and proof that the search would see a bug."""

from dataclasses import replace

import pytest

from tests.model.result_model import Rules, Scope, search

SETTLING = Scope(settlers=2, unanswered=0)
UNANSWERED = Scope(kills=0, settlers=2)
WORKING = Scope(chunks=1, workers=2, kills=2)
RACING = Scope(chunks=1, settlers=2)
LOSING = Scope(unanswered=0, losses=1)
PARKING = Scope(chunks=1, workers=2, parks=True)
SCOPES = {
    "two settlers": SETTLING,
    "no answers": UNANSWERED,
    "two workers": WORKING,
    "two runs, two settlers": RACING,
    "a lost bus": LOSING,
    "a replay": PARKING,
}

#: The bug, the scope that shows it, and what it does.
BUGS = {
    "rows before their blob": ("blob_before_rows", SETTLING, "a row names a blob that is not there"),
    "a blob that the next settler overwrites": ("named_by_content", RACING, "a row names a blob that is not there"),
    "the bytes of the other run": ("bytes_of_the_credited", WORKING, "a row names the bytes of another run"),
    "a second run in place of the first": (
        "first_credited_stays",
        WORKING,
        "another run took the place of the one that was credited",
    ),
    "messages completed before the transaction": (
        "completes_last",
        Scope(chunks=1, kills=1),
        "a chunk was computed again for no reason",
    ),
    "no blob after a send without an answer": (
        "stores_unanswered",
        Scope(chunks=1, kills=0),
        "a chunk was computed again for no reason",
    ),
    "chunks put again while results wait": (
        "waits_for_settlers",
        Scope(chunks=1, kills=0),
        "a chunk was computed again for no reason",
    ),
    "a parked row taken for a done one": ("only_done_ends", PARKING, "a chunk was never counted"),
}


@pytest.mark.parametrize("name", SCOPES)
def test_no_interleaving_loses_a_result_or_mixes_two_runs(name):
    """Kills, lost leases, unanswered requests and a lost bus at every moment: every state is searched."""
    found = search(SCOPES[name])
    assert (found.harm, found.way) == ("", ())
    # A search that reaches little proves little.
    assert found.states > 1_000


@pytest.mark.parametrize("bug", BUGS)
def test_the_search_finds_a_seeded_bug(bug):
    """Each rule is needed: without it the search finds the harm, by the shortest way there."""
    rule, scope, harm = BUGS[bug]
    found = search(scope, replace(Rules(), **{rule: False}))
    assert found.harm == harm
    assert found.way
