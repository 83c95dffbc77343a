"""What is done to the running app, and what must be true afterwards; each returns the rows of the table."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

from shared.app import Stores
from tests.chaos.invariants import breaches, computed_again, tick_later
from tests.chaos.jobs import publisher, submit, usages, wait_finished
from tests.chaos.stack import FRAME_ITEMS, Killer, running, wait_until

#: How long jobs may take after the trouble is over.
PATIENCE = 600
#: What is overdue by any setting.
LATER = timedelta(hours=1)


class Row:
    """One row of the table, and what was wrong."""

    def __init__(self, what, how_many, found, result):
        self.what, self.how_many, self.found = what, how_many, list(found)
        self.result = "; ".join(self.found[:5]) or result

    def cells(self):
        """Return the cells."""
        return (self.what, self.how_many, self.result)


def _at_rest(stack):
    wait_until(lambda: not stack.depths(), PATIENCE, lambda: f"queues are not empty: {stack.depths()}")


def kills(folder, *, jobs=20, items=10_000, least=150, mean=2.0, instances=3):
    """Kill instances at random moments while jobs come in, and messages come twice and out of order."""
    with running(folder, instances=instances, twice=0.2, late=3.0, overdue=60) as stack:
        expected = []
        with Killer(stack.host, mean) as killer:
            for number in range(jobs):
                # Spread over the kills, so that there is work to lose at each of them.
                wait_until(lambda due=number * least // jobs: killer.kills >= due, PATIENCE, lambda: "too few kills")
                expected.append(submit(stack.connections, f"kills-{number}", number, items))
            wait_until(lambda: killer.kills >= least, PATIENCE, lambda: f"{killer.kills} kills")
        wait_finished(stack.connections, expected, PATIENCE)
        _at_rest(stack)
        found = list(breaches(stack, expected))
        sent = [int(words[2]) for words in stack.notes() if words[0] == "sent"]
        share = sum(count == 2 for count in sent) / len(sent)
        runs = sum(words[0] == "run" for words in stack.notes())
    chunks = jobs * items // 100
    how_many = (
        f"{jobs * items:,} transactions in {jobs} jobs of {chunks:,} chunks, {instances} processes, {killer.kills} kills, "
        f"{share:.0%} of {len(sent):,} messages sent twice"
    )
    what = "SIGKILL of instances at random moments, messages twice, results out of order"
    return [Row(what, how_many, found, f"every control total exact; {runs:,} runs of {chunks:,} chunks")]


def losses(stack, *, jobs=4, items=10_000, hurries=False):
    """Lose the whole bus, and then every message of every queue, in the middle of jobs."""
    lost_bus = _lost(stack, "bus", jobs, items, hurries, stack.broker.restart)
    cleared = []

    def clear():
        # Twice: what is being put at the moment of the first is lost by the second.
        cleared.append(stack.clear_queues() + stack.clear_queues())

    lost_queues = _lost(stack, "queues", jobs, items, hurries, clear)

    def both():
        stack.broker.restart()
        clear()

    lost_all = _lost(stack, "both", jobs, items, hurries, both)
    _at_rest(stack)
    found = list(breaches(stack, [*lost_bus, *lost_queues, *lost_all]))
    how = "the app's own tick" if not hurries else "ticks beside the app, by a clock that is ahead"
    amount = f"{jobs} jobs of {items:,} transactions"
    result = f"all complete from the ledger, by {how}"
    return [
        Row("loss of the whole bus", amount, found, result),
        Row("loss of every message on every queue", f"{amount}; {cleared[0]} messages", found, result),
        Row("loss of both at once", f"{amount}; {cleared[1]} messages", found, result),
    ]


def _lost(  # noqa: PLR0917 - one caller each, by place
    stack, name, jobs, items, hurries, lose
):
    ledger = Stores(stack.connections).ledger
    expected = [submit(stack.connections, f"{name}-{number}", number, items) for number in range(jobs)]
    wait_until(lambda: all(ledger.read(one.job) for one in expected), PATIENCE, lambda: "not accepted")
    wait_until(
        lambda: any((job := ledger.read(one.job)) and job.done for one in expected), PATIENCE, lambda: "none began"
    )
    lose()
    if hurries:
        _hurry(stack, ledger, expected)
    wait_finished(stack.connections, expected, PATIENCE)
    return expected


def _hurry(stack, ledger, expected):
    """Let ticks come that are an hour ahead, until every chunk is accounted for."""
    for hour in range(1, 10):
        time.sleep(1)
        tick_later(stack, LATER * hour)
        if all((job := ledger.read(one.job)) is not None and job.has_ended for one in expected):
            return


@contextmanager
def _bus_away(stack):
    stack.way_to_bus.cut()
    try:
        yield
    finally:
        stack.way_to_bus.restore()


@contextmanager
def _bus_lost(stack):
    stack.broker.kill()
    try:
        yield
    finally:
        stack.broker.restart()


@contextmanager
def _storage_busy(stack):
    stack.proxy.is_busy = True
    try:
        yield
    finally:
        stack.proxy.is_busy = False


def outages(stack, *, items=20_000, bus_seconds=600, storage_seconds=60, hurries=False):
    """Take the bus away, then lose it, then let storage answer 503, each for a while in the middle of a job."""
    times = [_timed(stack, "before", items)]
    during = []
    for name, seconds, trouble in (
        ("away", bus_seconds, _bus_away),
        ("lost", bus_seconds, _bus_lost),
        ("busy", storage_seconds, _storage_busy),
    ):
        during.append(_through(stack, name, items, seconds, hurries, trouble))
        times.append(_timed(stack, f"after-{name}", items))
    _at_rest(stack)
    expected = [*(job for job, _ in times), *(job for job, _ in during)]
    found = list(breaches(stack, expected))
    again = [computed_again(stack, job) for job, _ in during]
    chunks = items // FRAME_ITEMS
    found += [
        f"{chunks - one.computed} chunks of a job were not seen to be computed"
        for one in again
        if one.computed != chunks
    ]
    if again[0].again:
        found.append(f"computed again although nothing was lost: {again[0].again} chunks")
    for one, (_, done) in zip(again, during, strict=True):
        if one.again > chunks - done:
            found.append(f"{one.again} chunks were computed again, and {done} of {chunks} were credited before")
    rates = [f"{items / seconds:,.0f}" for _, seconds in times]
    said = [
        f"0 parked, {one.again} of {chunks} chunks computed again; {before} transactions/s before, {after} after"
        for one, (before, after) in zip(again, pairwise(rates), strict=True)
    ]
    return [
        Row("the bus away, nothing on it lost", f"{bus_seconds} s", found, said[0]),
        Row("the bus away, all that was on it lost", f"{bus_seconds} s", found, said[1]),
        Row(
            "503 from all of storage",
            f"{storage_seconds} s, {stack.proxy.refused:,} requests refused",
            found,
            said[2],
        ),
    ]


def _timed(stack, name, items):
    began = time.monotonic()
    expected = submit(stack.connections, name, 1, items)
    wait_finished(stack.connections, [expected], PATIENCE)
    return expected, time.monotonic() - began


def _through(  # noqa: PLR0917 - one caller each, by place
    stack, name, items, seconds, hurries, trouble
):
    ledger = Stores(stack.connections).ledger
    expected = submit(stack.connections, name, 2, items)
    done = wait_until(lambda: (job := ledger.read(name)) and job.done, PATIENCE, lambda: f"{name} did not begin")
    with trouble(stack):
        time.sleep(seconds)
    if hurries:
        _hurry(stack, ledger, [expected])
    wait_finished(stack.connections, [expected], PATIENCE)
    return expected, done


def collisions(stack, *, drops=50, items=2_000):
    """Drop one submission many times at once, and then the same job id with other content."""
    connections, ledger = stack.connections, Stores(stack.connections).ledger
    with ThreadPoolExecutor(drops) as pool:
        expected = next(iter(pool.map(lambda _: submit(connections, "dropped", 1, items), range(drops))))
    wait_finished(connections, [expected], PATIENCE)
    first = ledger.read("dropped")
    publisher(connections).submit(job="dropped", workload="billing", transactions=usages(2, items))
    wait_until(
        lambda: list(Stores(connections).parked_table.entries()), PATIENCE, lambda: "the other content is not parked"
    )
    (entry,) = Stores(connections).parked_table.entries()
    found = [] if entry.reason == "conflict" else [f"parked as {entry.reason}"]
    named = first.content_hash in entry.found and len(_hashes(entry.found)) == 2
    found += [] if named else [f"it does not name both hashes: {entry.found}"]
    _at_rest(stack)
    jobs = [listed.job for listed in ledger.newest(1000)].count("dropped")
    wrong = [*breaches(stack, [expected], parked=1), *([] if jobs == 1 else [f"{jobs} jobs"])]
    return [
        Row("the same submission at once", f"{drops} times", wrong, "one job, counted once"),
        Row("the same job id with other content", "1", found, "parked as `conflict`, with both hashes"),
    ]


def _hashes(text):
    return {word.strip("'\".,:;()") for word in text.split() if len(word.strip("'\".,:;()")) == 64}


def hostile(stack, cases, *, good=3, items=1_000):
    """Drop hostile submissions among good ones."""
    connections, table = stack.connections, Stores(stack.connections).parked_table
    known = {entry.message_id for entry in table.entries(closed=True)}
    wanted, expected, strange = {}, [], []
    payloads, queue = (
        connections.blobs.get_container_client("payloads"),
        connections.queues.get_queue_client("submissions"),
    )
    cases = list(cases)
    random.Random(1).shuffle(cases)
    for number, case in enumerate(cases):
        if number % (len(cases) // good + 1) == 0:
            expected.append(submit(connections, f"good-{number}", number, items))
        job = f"hostile-{number}"
        for name, content in case.blobs.items():
            payloads.upload_blob(name.replace("job-1", job), content)
        message = queue.send_message(case.message.decode().replace("job-1", job), time_to_live=-1)
        wanted[message.id.lower(), job] = case
        strange += [job, message.id.lower()]
    wait_finished(connections, expected, PATIENCE)

    def parked():
        entries = [entry for entry in table.entries(closed=True) if entry.message_id not in known]
        return {name: entry.reason for entry in entries for name in (entry.message_id.lower(), entry.about)}

    def unparked():
        reasons = parked()
        return [
            f"{case.name}: {reasons.get(message) or reasons.get(job)}, not {case.reason}"
            for (message, job), case in wanted.items()
            if case.reason not in {reasons.get(message), reasons.get(job)}
        ]

    end = time.monotonic() + PATIENCE / 4
    while (wrong := unparked()) and time.monotonic() < end:
        time.sleep(0.5)
    _at_rest(stack)
    total = len(known) + len(cases)
    wrong += breaches(stack, expected, parked=total, others=strange)
    what = f"{len(cases)} among {len(expected)} good jobs"
    return [Row("hostile submissions", what, wrong, "each parked under its reason, the good ones complete")]
