"""Many cases, side by side, each made again from its seed and number alone, and what came of them."""

import logging
import multiprocessing
import os
import random
import re
import resource
import signal
import time
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.fuzz import corpus
from tests.fuzz.at_the_door import DOORS
from tests.fuzz.deliveries import DELIVERIES
from tests.fuzz.inside import INSIDE
from tests.fuzz.target import ACCEPTED

TARGETS = {target.name: target for target in (*DOORS, *INSIDE, *DELIVERIES)}
WHOLE = sum(target.share for target in TARGETS.values())
WORKERS = 2
#: Cases of one piece of work; it is also what a worker that was killed has lost.
PIECE = 250
#: Seconds of CPU that one case may take: a thousand times what nearly all take.
MOST_SECONDS = 2.0
#: What a process may take in addition to what it has when it begins.
MOST_BYTES = 512 * 1024**2
#: Failures of one kind that are kept and made smaller; the others are counted.
KEPT_OF_KIND = 3
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.fuzz.campaign"])


class EndlessError(BaseException):
    """Raised in a case whose time is up: no handler of `Exception` takes it for something else."""


@dataclass
class Tally:
    """What came of the cases of one target."""

    cases: int = 0
    outcomes: Counter = field(default_factory=Counter)
    #: CPU seconds of the cases, in powers of two: (exponent: cases).
    times: Counter = field(default_factory=Counter)
    slowest: float = 0.0
    seconds: float = 0.0
    #: (kind, message, parts) of cases that failed.
    failures: list = field(default_factory=list)

    @property
    def accepted(self):
        """The share of cases that passed every check."""
        return self.outcomes[ACCEPTED] / self.cases if self.cases else 0.0

    @property
    def median(self):
        """About how long half of the cases took at most, in seconds."""
        seen = 0
        for exponent in sorted(self.times):
            seen += self.times[exponent]
            if 2 * seen >= self.cases:
                return 2.0**exponent * 1e-6
        return 0.0

    def add(self, other):
        """Add what came of other cases."""
        self.cases += other.cases
        self.outcomes += other.outcomes
        self.times += other.times
        self.slowest = max(self.slowest, other.slowest)
        self.seconds += other.seconds
        self.failures += other.failures


def made(target, seed, number):
    """Return the parts of a case: the same ones wherever and whenever it is made."""
    return target.make(random.Random(f"{seed}/{target.name}/{number}"))


def tried(target, parts):
    """Return (outcome, failure) of a case: one of them is None."""
    try:
        with _within_time():
            return target.outcome(parts), None
    except (Exception, EndlessError) as error:  # noqa: BLE001 - what is not a documented answer is what is looked for
        return None, (kind_of(error), f"{type(error).__name__}: {str(error)[:300]}")


def kind_of(error):
    """Return what two failures of one cause have in common: the class and the last function of our own."""
    if isinstance(error, AssertionError):
        # A check says first what is wrong, then with what.
        return "AssertionError: " + re.sub(r"\d+", "#", str(error).partition(": ")[0])[:100]
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if f"{os.sep}shared{os.sep}" in frame.filename]
    place = f"{own[-1].filename.rpartition(os.sep + 'shared' + os.sep)[2]}:{own[-1].name}" if own else "the check"
    return f"{type(error).__name__} in {place}"


@contextmanager
def _within_time():
    def end(_signal, _frame):
        raise EndlessError(f"it takes more than {MOST_SECONDS:g} s of CPU")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def piece(task):
    """Try the cases of one piece of work: (target, seed, numbers)."""
    name, seed, first, last = task
    target, tally = TARGETS[name], Tally()
    for number in range(first, last):
        parts = made(target, seed, number)
        began = time.thread_time()
        outcome, failure = tried(target, parts)
        took = time.thread_time() - began
        tally.cases += 1
        tally.seconds += took
        tally.slowest = max(tally.slowest, took)
        tally.times[max(0, int(took * 1e6)).bit_length()] += 1
        if failure is None:
            tally.outcomes[outcome] += 1
        else:
            tally.outcomes["failed"] += 1
            tally.failures.append((*failure, number, parts))
    tally.failures = list(_few(tally.failures))
    return name, tally


def _few(failures):
    counts = Counter()
    for kind, message, number, parts in failures:
        counts[kind] += 1
        if counts[kind] <= KEPT_OF_KIND:
            yield kind, message, number, parts


def run(cases, seed, names=(), seconds=None, tell=lambda *_: None):
    """Try so many cases over all targets, or over those named, and return their tallies."""
    wanted = [TARGETS[name] for name in names or TARGETS]
    whole = sum(target.share for target in wanted)
    tallies, began = {target.name: Tally() for target in wanted}, time.monotonic()
    with CONTEXT.Pool(WORKERS, begin) as pool:
        for name, tally in pool.imap_unordered(piece, list(_pieces(wanted, cases, whole, seed))):
            tallies[name].add(tally)
            tell(tallies, time.monotonic() - began)
            if seconds and time.monotonic() - began > seconds:
                break
    return tallies


def _pieces(wanted, cases, whole, seed):
    """Yield pieces of every target in turn, so that each has its share whenever the time is up."""
    found = []
    for target in wanted:
        number = round(cases * target.share / whole)
        found += [
            (first / number, (target.name, seed, first, min(number, first + PIECE)))
            for first in range(0, number, PIECE)
        ]
    yield from (task for _, task in sorted(found))


def begin():
    """Set up a worker: what takes more memory than it may meets a MemoryError, which is no documented answer."""
    quiet()
    # The client of storage looks through all of it for proxies, twice a request.
    os.environ.clear()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    limit = used + MOST_BYTES
    # Data, not address space: threads reserve far more of that than they use.
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def quiet():
    """Say nothing of what is refused: it is most of what there is."""
    logging.disable(logging.CRITICAL)


def smaller(target, parts, kind):
    """Return a case of the same kind of failure that lacks whatever is not needed for it."""
    return corpus.smaller(parts, lambda tried_parts: (tried(target, tried_parts)[1] or ("",))[0] == kind)
