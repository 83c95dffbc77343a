"""A slice of `make faults`: faults at a spread of the pipeline's requests leave nothing lost, doubled, stuck or parked."""

from itertools import cycle, islice

import pytest

from tests.faults import campaign, pairs
from tests.faults.plan import MODES, Fault

#: Hundreds of runs: within a minute alone, within several beside three other workers on a slow machine.
#: Runs on Azurite, single faults in memory, and histories with two faults in memory.
ON_AZURITE, IN_MEMORY, WITH_TWO = 16, 48, 32
CHOSEN = ("accept, gate closed, release", "settle and finish", "host gives up, drain", "replay, then all is lost")


def spread(sites, number):
    """Return so many faults over all requests of some scenarios, each mode as often as the others."""
    points = [(name, at) for name, requests in sites.items() for at in range(1, len(requests) + 1)]
    chosen = points[:: max(1, len(points) // number)][:number]
    return [
        (name, (Fault(at, mode),)) for (name, at), mode in zip(chosen, islice(cycle(MODES), len(chosen)), strict=True)
    ]


def tallied(tasks, sites, where=None):
    """Return the tallies, after seeing that no run says anything; if one does, the failure shows how to do it again."""
    tallies = campaign.collect(campaign.outcomes(tasks, where), sites).values()
    assert [breach for tally in tallies for breach in tally.breaches] == []
    return tallies


@pytest.mark.ci("a campaign of faults")
def test_real_processes_killed_and_cut_off_on_azurite_leave_what_completes(crowd):
    """Forked processes end for good, or meet a fault, at requests of real clients to a real storage."""
    sites = campaign.recorded(CHOSEN, crowd)
    tallies = tallied(spread(sites, ON_AZURITE), sites, crowd)
    # What is hidden there comes back by the clock on the wall, so that two runs may differ in their order.
    assert sum(tally.runs for tally in tallies) >= ON_AZURITE / 2


def test_single_faults_in_memory_leave_what_completes(in_memory, is_usual):
    """Faults of every mode, nearly all of them at the request that was recorded. In CI four times as many."""
    tasks = spread(in_memory, IN_MEMORY // (4 if is_usual else 1))
    tallies = tallied(tasks, in_memory)
    # Threads that fetch ids or read results beside the others may change places with them; no breach comes of it.
    missed = [line for tally in tallies for line in tally.missed]
    assert len(missed) <= len(tasks) / 10, missed


@pytest.mark.ci("a campaign of faults")
def test_two_faults_in_memory_leave_what_completes(in_memory):
    """The second fault comes shortly after the first, often in the middle of the recovery from it."""
    tallies = tallied(pairs.histories(in_memory, WITH_TWO), in_memory)
    assert sum(tally.whole for tally in tallies) > WITH_TWO / 2
