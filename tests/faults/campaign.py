"""Many runs, side by side, and what came of them."""

import logging
import multiprocessing
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import shared.connections
import shared.parked.drain
from tests.faults.azurite_storage import AzuriteAccounts
from tests.faults.crash_points import run
from tests.faults.host import HIDDEN
from tests.faults.memory.storage import MemoryStorages
from tests.faults.plan import Fault
from tests.faults.scenarios import SCENARIOS

#: Most of a run on a real storage is waiting for it, or for a hidden message.
REAL_WORKERS, MEMORY_WORKERS = 6, 2
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
#: Workers fork from a process that has imported everything and has no threads.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.faults.campaign"])
_storages = None


class Shared:
    """An Azurite that several workers and campaigns use: no account is taken twice."""

    def __init__(self, ports):
        self._ports, self._taken = ports, CONTEXT.Value("i", 0)

    def __iter__(self):
        return iter((self._ports, self._take))

    def _take(self):
        with self._taken.get_lock():
            self._taken.value += 1
            return self._taken.value


@dataclass
class Tally:
    """What came of the runs of one scenario."""

    requests: int = 0
    #: Requests of the recorded act whose fault happened in some run, and (stage, site) pairs.
    reached: set = field(default_factory=set)
    sites: set = field(default_factory=set)
    runs: int = 0
    modes: Counter = field(default_factory=Counter)
    #: Faults that did not happen, or met another request than the recorded one.
    missed: int = 0
    breaches: list = field(default_factory=list)


def begin(where):
    """Set up a worker process: `where` is an Azurite to share, or None for storage in memory."""
    global _storages  # noqa: PLW0603 - a worker process has one
    quick()
    _storages = AzuriteAccounts(*where) if where else MemoryStorages()


def quick():
    """Take out the waits, of which only what follows them matters here."""
    shared.connections.PAUSE = 0.001
    shared.parked.drain._HIDDEN = HIDDEN
    logging.disable(logging.CRITICAL)


def work(task):
    """Do one run; a task is a scenario's name and its faults."""
    name, faults = task
    try:
        return task, run(BY_NAME[name], _storages, faults)
    except Exception as error:  # noqa: BLE001 - whatever the checks meet is a finding, and the campaign goes on
        from tests.faults.crash_points import Outcome  # noqa: PLC0415 - only here

        return task, Outcome(breaches=[f"the run failed: {type(error).__name__}: {error}"])


def outcomes(tasks, where=None, seconds=None):
    """Yield each task with its outcome, until all are done or the time is up."""
    end = None if seconds is None else time.monotonic() + seconds
    workers = REAL_WORKERS if where else MEMORY_WORKERS
    with CONTEXT.Pool(workers, begin, (where,)) as pool:
        for done in pool.imap_unordered(work, tasks, chunksize=1):
            yield done
            if end and time.monotonic() > end:
                return


def recorded(names, where=None):
    """Run each scenario without a fault and return its requests."""
    sites = {}
    for (name, _), outcome in outcomes([(name, ()) for name in names], where):
        if outcome.breaches:
            raise AssertionError(f"{name} without a fault: {outcome.breaches}")
        sites[name] = outcome.sites
    return {name: sites[name] for name in names}


def points(sites, modes):
    """Return a task for every request in every mode, those first that no other scenario has."""
    ranks, tasks = defaultdict(int), []
    for name, requests in sites.items():
        seen = Counter()
        for at, site in enumerate(requests, 1):
            seen[site] += 1
            # First each site once, then each once a scenario, then every further occurrence.
            rank = 0 if not ranks[site] else 1 if seen[site] == 1 else 2
            ranks[site] += 1
            tasks += [(rank, name, at, mode) for mode in modes]
    return [(name, (Fault(at, mode),)) for _, name, at, mode in sorted(tasks, key=lambda task: task[0])]


def collect(found, sites):
    """Return the tally of each scenario."""
    tallies = {name: Tally(requests=len(requests)) for name, requests in sites.items()}
    for (name, faults), outcome in found:
        tally = tallies[name]
        is_hit = len(outcome.fired) == len(faults)
        first = faults[0]
        if not is_hit or outcome.fired[0][:2] != tuple(sites[name][first.at - 1]):
            tally.missed += 1
        else:
            tally.runs += 1
            tally.reached.add(first.at)
            tally.sites.add(outcome.fired[0][:2])
            tally.modes[first.mode] += 1
        if outcome.breaches:
            told = ", ".join(map(str, faults))
            tally.breaches.append(f"{name}: {told} ({outcome.fired}): {'; '.join(outcome.breaches)}")
    return tallies
