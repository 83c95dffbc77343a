"""Many runs, side by side, and what came of them."""

import faulthandler
import gc
import logging
import multiprocessing
import os
import random
import shlex
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from unittest.mock import Mock

import shared.azure.connections
from tests.faults.azurite_storage import AzuriteAccounts, start
from tests.faults.crash_points import Outcome, run
from tests.faults.host import HIDDEN
from tests.faults.memory.storage import MemoryStorages
from tests.faults.orders.scenarios import ORDER_SCENARIOS
from tests.faults.plan import Fault, KilledError
from tests.faults.scenarios import ACT_SCENARIOS, SCENARIOS

#: A third of a run on a real storage is waiting for a hidden message.
REAL_WORKERS, MEMORY_WORKERS = 4, 2
#: Seconds without any result after which a run stands still: below pytest's limit for a test, and that of a command, which
#: waits for the processor where others work. So many of the tasks that are left are named.
SILENCE, LONG_SILENCE, NAMED = 120, 1_800, 5
#: Waits of which only what follows them matters here; and what would make the order of requests a matter of luck.
SHORTCUTS = {
    "shared.azure.connections.PAUSE": 0.001,
    "shared.parked.parking._HIDDEN": HIDDEN,
    # Lots of one call, taken in an order that each run has.
    "shared.pipeline.failing.call_limits.LOT": 1,
    "shared.pipeline.failing.call_limits.SystemRandom": partial(random.Random, 1),
    # A function of registration rests after a failure, so that the bus does not deliver again at once.
    "capabilities.registration.flows.time": Mock(),
    # What a process does some seconds later, a run has it do when its host is idle.
    "shared.processes.outgoing.Timer": lambda *_: Mock(),
    "shared.processes.runtime.PARALLEL": 1,
    "shared.readmodels.view_writer.PARALLEL": 1,
}
#: Runs on one Azurite: after a thousand it takes four times as long over each.
ROUND = 200
BY_NAME = {scenario.name: scenario for scenario in (*SCENARIOS, *ACT_SCENARIOS, *ORDER_SCENARIOS)}
#: Workers fork from a process that has imported everything and has no threads.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.faults.campaign"])
_storages = None
#: Set when someone asks for an end: what was done until then is worth hours.
stopping = threading.Event()


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
    #: Requests of the recorded act whose fault happened in some run, and (stage, site) pairs: met, and recorded.
    reached: set = field(default_factory=set)
    sites: set = field(default_factory=set)
    recorded: set = field(default_factory=set)
    runs: int = 0
    #: Runs in which every fault happened.
    whole: int = 0
    #: Runs whose fault did not happen, or met another request than the recorded one, each with what it met.
    missed: list[str] = field(default_factory=list)
    breaches: list = field(default_factory=list)
    #: The states that runs passed through.
    seen: Counter = field(default_factory=Counter)


def begin(where):
    """Set up a worker process: `where` is an Azurite to share, or None for storage in memory."""
    global _storages  # noqa: PLW0603 - a worker process has one
    # Ctrl-C reaches every process of the terminal; the campaign ends this one after its last result.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    quick()
    # The client looks through all of it for proxies, twice a request: a quarter of a run's time.
    os.environ.clear()
    # A storage that has to share its processor with everything else is slow, which is no fault that was planned.
    shared.azure.connections.PATIENCE = 60
    _storages = AzuriteAccounts(*where) if where else MemoryStorages()
    # What was imported stays; looking through it again and again takes a tenth of the time, and through each request another.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def quick():
    """Take the shortcuts, and log nothing."""
    for name, value in SHORTCUTS.items():
        module, _, attribute = name.rpartition(".")
        setattr(sys.modules[module], attribute, value)
    logging.disable(logging.CRITICAL)


def work(task, storages=None, *, recovers=True):
    """Do one run, to the end of its recovery or to that of its act; a task is a scenario's name and its faults."""
    name, faults = task
    # Where a run stands still, this is the only witness.
    faulthandler.dump_traceback_later(SILENCE - 30, file=sys.__stderr__)
    try:
        return task, run(BY_NAME[name], storages or _storages, faults, recovers=recovers)
    except (Exception, KilledError) as error:  # noqa: BLE001 - whatever the checks meet is a finding
        # A worker that ended by it would take its task along, and the campaign would wait for that.
        return task, Outcome(breaches=[f"the process ended with {type(error).__name__}: {error}"])
    finally:
        faulthandler.cancel_dump_traceback_later()


def outcomes(tasks, where=None, seconds=None, *, recovers=True):
    """Yield each task with its outcome, until all are done, the time is up or someone asks for an end."""
    end = None if seconds is None else time.monotonic() + seconds
    workers = REAL_WORKERS if where else MEMORY_WORKERS
    tasks = list(tasks)
    left = Counter(tasks)
    with CONTEXT.Pool(workers, begin, (where,)) as pool:
        found = pool.imap_unordered(partial(work, recovers=recovers), tasks, chunksize=1)
        while left.total():
            try:
                done = found.next(timeout=SILENCE if seconds is None else LONG_SILENCE)
            except multiprocessing.TimeoutError:
                some = ", ".join(map(again, list(+left)[:NAMED]))
                raise AssertionError(f"nothing for so long; {left.total()} are not done: {some}") from None
            left[done[0]] -= 1
            yield done
            if stopping.is_set() or (end and time.monotonic() > end):
                return


def on_azurite(tasks, seconds):
    """Yield the same from runs on Azurite, on a new one every so often: it looks through all accounts for each."""
    end = time.monotonic() + seconds
    for first in range(0, len(tasks), ROUND):
        with start() as azurite:
            yield from outcomes(tasks[first : first + ROUND], Shared(azurite.ports), end - time.monotonic())
        if stopping.is_set() or time.monotonic() > end:
            return


def recorded(names, where=None, *, recovers=True):
    """Run each scenario without a fault and return the requests of its act."""
    sites = {}
    for (name, _), outcome in outcomes([(name, ()) for name in names], where, recovers=recovers):
        if outcome.breaches:
            raise AssertionError(f"{name} without a fault: {outcome.breaches}")
        sites[name] = outcome.sites
    return {name: sites[name] for name in names}


def points(sites, modes, dice=None):
    """Return a task for every request in every mode, those first that no other scenario has. With dice, in no order else.

    So a campaign whose time is short meets each scenario.
    """
    ranks, tasks = defaultdict(int), []
    for name, requests in sites.items():
        seen = Counter()
        for at, site in enumerate(requests, 1):
            seen[site] += 1
            # First each site once, then each once a scenario, then every further occurrence.
            rank = 0 if not ranks[site] else 1 if seen[site] == 1 else 2
            ranks[site] += 1
            tasks += [(rank, name, at, mode) for mode in modes]
    if dice is not None:
        dice.shuffle(tasks)
    return [(name, (Fault(at, mode),)) for _, name, at, mode in sorted(tasks, key=lambda task: task[0])]


def collect(found, sites):
    """Return the tally of each scenario."""
    tallies = {name: Tally(requests=len(requests), recorded=set(requests)) for name, requests in sites.items()}
    for task, outcome in found:
        _count(tallies[task[0]], task, outcome, sites[task[0]])
    return tallies


def _count(tally, task, outcome, requests):
    first = task[1][0]
    if not outcome.fired or outcome.fired[0][:2] != tuple(requests[first.at - 1]):
        met = outcome.fired[0][:2] if outcome.fired else "nothing"
        tally.missed.append(f"{again(task)} met {met} instead of {requests[first.at - 1]}")
    else:
        tally.runs += 1
        tally.whole += len(outcome.fired) == len(task[1])
        tally.reached.add(first.at)
        tally.sites.add(outcome.fired[0][:2])
        tally.seen.update(outcome.seen)
    if outcome.breaches:
        tally.breaches.append(f"{again(task)} says: {'; '.join(outcome.breaches)}")


def again(task):
    """Return the line that does one run again, with its requests."""
    name, faults = task
    words = " ".join(["--replay", shlex.quote(name), *map(str, faults)])
    return f'make faults ARGS="{words}"'
