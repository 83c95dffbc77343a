"""Stop and pause on the whole local stack at the deployed locks: two instances and `sluice worker`, 24 tasks.

What is in work is not what the app says of itself: the workload writes each call of `map` down.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shared.app import Stores
from shared.azure import Connections
from shared.ledger import FINISHED, Job, JobState
from shared.messages import ChunkMessage, Permit, encode
from shared.pipeline import TotalsTable
from shared.publish import Publisher
from shared.usage import bill_of, load
from tests.benchmarks.acts_row import Row
from tests.benchmarks.acts_workload import SECONDS, STAMPS
from tests.benchmarks.dequeue_entries import SLUICE, Workers
from tests.waiting import LIMIT
from tools.local.paths import ROOT
from tools.local.stack import Stack, StackOptions, running

TASKS: Final = 24
CHUNKS: Final = 1_250
#: Seconds of a chunk of the jobs that are stopped and paused; and of a call that waits, with the calls of its chunk.
CHUNK, CALL, CALLS = 2.0, 1.0, 400
#: Goals, in seconds from the return of the command, and in the time of a job alone.
BEGINS, SILENT, DRAINS, BESIDE = 10.5, 11.0, 10.0, 2.0
#: Seconds for which all processes stand still around a stop, and after which nothing that stopped begins any more.
STILL, QUIET = 15.0, 25.0
EVERY = 0.2
#: Seconds for which messages are hidden while they are put.
HIDDEN = 40.0
#: The gate of the job that is forecast, and how far the forecast may be away.
GATE, NEAR = "nightly", 0.25


@dataclass(frozen=True, slots=True)
class Stamp:
    """The begin or the end of a call of `map`."""

    what: str
    number: int
    pid: int
    at: float


class Fleet:
    """One stack, and what people do with its jobs."""

    def __init__(self, stack: Stack, connections: Connections, stamps: Path) -> None:
        self.stack, self.connections, self.stores, self._stamps = stack, connections, Stores(connections), stamps
        self._first = 0
        self.workers = Workers(stack.settings, 1)

    def submit(self, job: str, items: int, workload: str = "stamped", gate: str | None = None) -> range:
        """Submit a job, and return the numbers of its transactions."""
        numbers = range(self._first, self._first + items)
        self._first += items
        with Publisher.connect(self.connections) as publisher:
            publisher.submit(
                job=job,
                workload=workload,
                transactions=(
                    {"number": n, "account": f"a-{(n - numbers[0]) % 7}", "units": n - numbers[0]} for n in numbers
                ),
                sums=("units",),
                gate=gate,
            )
        return numbers

    def stamps(self, numbers: range | None = None) -> list[Stamp]:
        """Return the calls so far, of these transactions."""
        words = (line.split() for line in self._stamps.read_text().splitlines())
        found = (Stamp(what, int(number), int(pid), float(at)) for what, number, pid, at in words)
        return [one for one in found if numbers is None or one.number in numbers]

    def wait_for_work(self, numbers: range, begun: int) -> None:
        """Wait until so many transactions began."""
        wait(lambda: sum(one.what == "begin" for one in self.stamps(numbers)) >= begun, f"{begun} calls")

    def act(self, *words: str) -> float:
        """Give a command as a person does, and return when it returned."""
        done = subprocess.run(
            [SLUICE, "jobs", *words],
            check=False,
            env={**os.environ, **self.stack.settings},
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        if done.returncode:
            raise RuntimeError(
                f"`sluice jobs {' '.join(words)}` ended with {done.returncode}: {done.stdout}{done.stderr}"
            )
        return time.time()

    def job(self, name: str) -> Job:
        """Return a job's row."""
        found = self.stores.ledger.read(name)
        if found is None:
            raise RuntimeError(f"there is no job {name}")
        return found

    def run(self, name: str, items: int, workload: str = "stamped") -> float:
        """Run a job to its end, and return its seconds."""
        began = time.monotonic()
        self.submit(name, items, workload)
        self.wait_for_end(name)
        return time.monotonic() - began

    def wait_for_end(self, name: str) -> None:
        """Wait until a job has ended."""
        wait(lambda: (job := self.stores.ledger.read(name)) is not None and job.state in FINISHED, f"the end of {name}")

    def totals(self, name: str) -> dict[str, int]:
        """Return the totals of a job by account."""
        table = TotalsTable(self.connections.tables.get_table_client("totals"))
        return {row["account"]: row["units"] for row in table.rows_of_partition(name, self.job(name).revision)}

    def depth(self) -> int:
        """Return how many messages the work queue has, hidden ones too."""
        queue = self.connections.queues.get_queue_client("work-00")
        return int(queue.get_queue_properties().approximate_message_count or 0)

    def pids(self) -> set[int]:
        """Return the processes that work."""
        instances = set(self.stack.host.instance_pids().values())  # type: ignore[attr-defined]  # the local host has it
        return instances | {one.pid for one in self.workers.processes}

    def signal(self, number: int) -> None:
        """Send a signal to each process that works."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)


@contextmanager
def running_fleet(*, items: int, seconds: float) -> Iterator[Fleet]:
    """Start a stack whose chunks have so many transactions, each of so many seconds."""
    with tempfile.TemporaryDirectory(prefix="sluice-acts-") as folder:
        stamps = Path(folder) / "stamps"
        stamps.touch()
        module = "tests.benchmarks.acts_workload"
        settings = {
            "SLUICE_CHUNK_ITEMS": str(items),
            "SLUICE_WORKLOADS": f"{module}:Stamped,{module}:Calling",
            STAMPS: str(stamps),
            SECONDS: str(seconds),
        }
        with (
            running(StackOptions(instances=2, settings=settings)) as stack,
            Connections.parse(stack.settings) as connections,
        ):
            fleet = Fleet(stack, connections, stamps)
            fleet.stores.rules.put(f"version: 1\nrules: [{{name: same, tasks: {TASKS}}}]\n")
            with fleet.workers:
                yield fleet


def stop(fleet: Fleet) -> Iterator[Row]:
    """Stop a job at full work; a small one comes beside it. Then drain as many messages as such a job can have."""
    fleet.run("warm", 2 * TASKS)
    alone = max(fleet.run(f"alone-{number}", 1) for number in range(3))
    flood = fleet.submit("flood", CHUNKS)
    fleet.wait_for_work(flood, 4 * TASKS)
    returned = fleet.act("stop", "flood", "--by", "bench", "--why", "wrong file", "--yes")
    beside = fleet.run("beside", 1)
    time.sleep(max(0.0, returned + QUIET - time.time()))
    found = fleet.stamps(flood)
    begins = [one.at for one in found if one.what == "begin"]
    last = max(begins) - returned
    job = fleet.job("flood")
    where = f"{most_at_once(found)} calls at once in {len({one.pid for one in found})} processes"
    said = f"{last:.1f} s after the command returned; {len(begins):,} of {CHUNKS:,} began, {where}"
    yield Row("stop: the last `map` of 1,250 chunks begins", said, f"{BEGINS} s", last <= BEGINS)
    ended = job.totals.items + job.not_run == job.items == CHUNKS and job.state is JobState.STOPPED
    yield Row("stop: ended + not run", f"{job.totals.items:,} + {job.not_run:,}", f"{CHUNKS:,}", ended)
    ratio = beside / alone
    said = f"{beside:.1f} s, alone {alone:.1f} s at most"
    yield Row("stop: a job of one chunk beside it", said, f"{BESIDE:g} times its time alone", ratio <= BESIDE)
    seconds = drain(fleet, CHUNKS)
    yield Row(f"stop: {CHUNKS:,} messages of it are drained", f"{seconds:.1f} s", f"{DRAINS:g} s", seconds <= DRAINS)


def drain(fleet: Fleet, messages: int) -> float:
    """Put messages of a stopped job as a dispatcher that was slow does, wake the fleet, and return the seconds to the last.

    They come into sight together, when all are put: no task that is still awake takes some before.
    """
    wait(lambda: not fleet.depth(), "an empty work queue")
    queue = fleet.connections.queues.get_queue_client("work-00")
    frame = (0, 10, 1, "0" * 64)
    said = [
        encode(
            ChunkMessage(
                job="flood",
                chunk=n,
                revision=1,
                workload="stamped",
                codec="plain",
                frames=[frame],
                first_id=n,
                blob="x",
            )
        ).decode()
        for n in range(messages)
    ]
    before, sight = len(fleet.stamps()), time.monotonic() + HIDDEN

    def put(text: str) -> None:
        hidden = int(sight - time.monotonic())
        queue.send_message(text, time_to_live=-1, visibility_timeout=max(0, hidden))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(put, said))
    time.sleep(max(0.0, sight - time.monotonic()))
    began = time.monotonic()
    fleet.stores.send_permits([Permit(slot=slot, depth=messages, tasks=TASKS) for slot in range(TASKS)])
    wait(lambda: not fleet.depth(), "a drained work queue")
    seconds = time.monotonic() - began
    if len(fleet.stamps()) != before:
        raise RuntimeError("a message of a stopped job was run")
    return seconds


def wake(fleet: Fleet) -> Iterator[Row]:
    """Stop a job while every process stands still, and count the chunks that each begins when it goes on."""
    flood = fleet.submit("frozen", 20 * TASKS)
    fleet.wait_for_work(flood, 3 * TASKS)
    fleet.signal(signal.SIGSTOP)
    try:
        fleet.stores.job_operator.stop("frozen", by="bench", why="wrong file")
        time.sleep(STILL)
    finally:
        woken = time.time()
        fleet.signal(signal.SIGCONT)
    time.sleep(QUIET)
    found = fleet.stamps(flood)
    tasks = tasks_of(one for one in found if one.at < woken)
    begun = Counter(one.pid for one in found if one.what == "begin" and one.at >= woken)
    said = ", ".join(f"{begun[pid]} in {most} tasks" for pid, most in sorted(tasks.items()))
    is_good = all(begun[pid] <= tasks.get(pid, 0) for pid in begun)
    yield Row(
        "stop while all processes stand still: chunks that each begins when it goes on", said, "one a task", is_good
    )


def pause(fleet: Fleet, seconds: float) -> Iterator[Row]:
    """Pause a job, end every process, wait, resume it, and compare it with one that was not paused."""
    items = 30 * TASKS
    fleet.run("plain", items)
    numbers = fleet.submit("paused", items)
    fleet.wait_for_work(numbers, 2 * TASKS)
    fleet.act("pause", "paused", "--by", "bench", "--why", "wrong tariff")
    time.sleep(QUIET)
    before = fleet.pids()
    fleet.signal(signal.SIGKILL)
    fleet.workers.processes = []
    fleet.workers.__enter__()
    wait(lambda: len(fleet.pids() - before) == len(before), "the instances that follow")
    began = time.time()
    time.sleep(seconds)
    calls = sum(one.at >= began for one in fleet.stamps(numbers))
    state = fleet.job("paused").state
    said = f"{calls} calls of `map` in {seconds:.0f} s; the job is {state.value}"
    yield Row(
        "pause: after all processes were killed and others started",
        said,
        "0 calls, paused",
        not calls and state is JobState.PAUSED,
    )
    fleet.act("resume", "paused", "--by", "bench", "--why", "mended", "--yes")
    fleet.wait_for_end("paused")
    one, other = fleet.job("paused"), fleet.job("plain")
    is_same = (one.totals.accepted, fleet.totals("paused")) == (other.totals.accepted, fleet.totals("plain"))
    twice = sum(count > 1 for count in Counter(s.number for s in fleet.stamps(numbers) if s.what == "begin").values())
    said = f"{one.totals.accepted.items} transactions, {len(fleet.totals('paused'))} totals: {'the same' if is_same else 'OTHERS'}; {twice} ran twice"
    yield Row(
        "pause: after the resume, against a job without pause",
        said,
        "the same totals",
        is_same and one.state is JobState.COMPLETE,
    )


def forecast(fleet: Fleet) -> Iterator[Row]:
    """Hold a job behind a gate, forecast its opening, open it, and compare."""
    fleet.submit("held", 10 * TASKS, gate=GATE)
    wait(lambda: (job := fleet.stores.ledger.read("held")) is not None and job.state is JobState.HELD, "a held job")
    prices = load()
    found = fleet.stores.gate_forecaster.forecast(GATE, prices, fleet.stores.clock.now())
    began = time.monotonic()
    fleet.stores.gate_operator.open(GATE, by="bench")
    fleet.wait_for_end("held")
    seconds, amount = time.monotonic() - began, bill_of(fleet.job("held"), prices).total
    near = found.seconds is not None and abs(found.seconds / seconds - 1) <= NEAR
    said = "unknown" if found.seconds is None else f"{found.seconds:.1f} s, it took {seconds:.1f} s"
    yield Row("forecast of an opening: its end", said, f"within {NEAR:.0%}", near)
    said = f"{found.amount:.6f} USD, its bill is {amount:.6f} USD"
    yield Row("forecast of an opening: its price", said, f"within {NEAR:.0%}", abs(found.amount / amount - 1) <= NEAR)


def call(fleet: Fleet) -> Iterator[Row]:
    """Stop a job whose calls take a second, many to a chunk."""
    numbers = fleet.submit("calls", 40 * CALLS, "calling")
    fleet.wait_for_work(numbers, CALLS)
    returned = fleet.act("stop", "calls", "--by", "bench", "--why", "wrong file", "--yes")
    time.sleep(QUIET)
    last = max(one.at for one in fleet.stamps(numbers)) - returned
    yield Row(
        "stop: the last `async map` of 1 s ends",
        f"{last:.1f} s after the command returned",
        f"{SILENT:g} s",
        last <= SILENT,
    )


def measure_threads(paused: float) -> Iterator[Row]:
    """Measure jobs whose `map` does not wait."""
    with running_fleet(items=1, seconds=CHUNK) as fleet:
        yield from stop(fleet)
        yield from wake(fleet)
        yield from pause(fleet, paused)
        yield from forecast(fleet)


def measure_calls() -> Iterator[Row]:
    """Measure jobs whose `map` waits."""
    with running_fleet(items=CALLS, seconds=CALL) as fleet:
        yield from call(fleet)


def most_at_once(stamps: Sequence[Stamp]) -> int:
    """Return the most calls at a time."""
    now, most = 0, 0
    for one in sorted(stamps, key=lambda one: (one.at, one.what == "begin")):
        now += 1 if one.what == "begin" else -1
        most = max(most, now)
    return most


def tasks_of(stamps: Any) -> dict[int, int]:
    """Return the most calls at a time of each process."""
    found: dict[int, list[Stamp]] = {}
    for one in stamps:
        found.setdefault(one.pid, []).append(one)
    return {pid: most_at_once(some) for pid, some in found.items()}


def wait(look: Callable[[], object], what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + LIMIT
    while not look():
        if time.monotonic() >= end:
            raise TimeoutError(f"waited {LIMIT} s for {what}")
        time.sleep(EVERY)
