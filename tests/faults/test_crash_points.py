"""A slice of `make faults`: faults at a spread of the pipeline's requests leave nothing lost, doubled, stuck or parked."""

from collections import Counter
from itertools import cycle, islice

import pytest

from tests.faults import campaign, pairs
from tests.faults.azurite_storage import start
from tests.faults.plan import MODES, Fault

#: Runs on Azurite, single faults in memory, and histories with two faults in memory.
ON_AZURITE, IN_MEMORY, WITH_TWO = 16, 48, 32
CHOSEN = ("accept, gate closed, release", "settle and finish", "host gives up, drain", "replay, then all is lost")


@pytest.fixture(scope="module")
def in_memory():
    """The requests of every scenario, in memory."""
    return campaign.recorded(list(campaign.BY_NAME))


def spread(sites, number):
    """Return so many faults over all requests of some scenarios, each mode as often as the others."""
    points = [(name, at) for name, requests in sites.items() for at in range(1, len(requests) + 1)]
    chosen = points[:: max(1, len(points) // number)][:number]
    return [
        (name, (Fault(at, mode),)) for (name, at), mode in zip(chosen, islice(cycle(MODES), len(chosen)), strict=True)
    ]


def judged(found, sites, missed_at_most=0):
    """Return every breach, after seeing that the faults happened where they were meant to."""
    tallies = campaign.collect(found, sites)
    assert sum(tally.missed for tally in tallies.values()) <= missed_at_most
    return [breach for tally in tallies.values() for breach in tally.breaches]


def test_real_processes_killed_and_cut_off_on_azurite_leave_what_completes():
    """Forked processes end for good, or meet a fault, at requests of real clients to a real storage."""
    with start() as azurite:
        where = campaign.Shared(azurite.ports)
        sites = campaign.recorded(CHOSEN, where)
        # What is hidden there comes back by the clock on the wall, so that two runs may differ in their order.
        assert judged(campaign.outcomes(spread(sites, ON_AZURITE), where), sites, ON_AZURITE // 2) == []


def test_single_faults_in_memory_leave_what_completes(in_memory):
    """Every scenario meets faults of every mode."""
    assert judged(campaign.outcomes(spread(in_memory, IN_MEMORY)), in_memory) == []


def test_two_faults_in_memory_leave_what_completes(in_memory):
    """The second fault comes shortly after the first, often in the middle of the recovery from it."""
    found = list(campaign.outcomes(pairs.histories(in_memory, WITH_TWO)))
    assert [(task, outcome.breaches) for task, outcome in found if outcome.breaches] == []
    assert Counter(len(outcome.fired) for _, outcome in found)[2] > WITH_TWO / 2
