"""One hour of backlog in simulated time, with and without losses: what is put again, and what the ticks request.

    python -m tests.benchmarks.backlog          (part of `make bench`; writes its table into docs/appendix/ledger.md)

The sweep, the starter, the dispatcher and the reader of the fronts are the real ones, on a ledger, an index and queues in
memory, which count each call as the requests that it would make. Workers and settlers keep their rules only.
"""

import logging
import random
import sys
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import SimpleNamespace

from shared.ledger import Job, JobState, PlanBlob, change, record_plan, settle
from shared.ledger.job_decisions import Balance, finish
from shared.messages import PortionMessage, Result, decode
from shared.pending import JOB_POINTER, RETENTION_POINTER, Due, Followers, Pointer, Range
from shared.pipeline import Dispatcher, FinishCall, QueueFronts, Starter, Sweep
from shared.pipeline.plan import PayloadSource, Plan, PlannedChunk
from shared.pipeline.start import point_to_start
from shared.topology import work_queue_names
from tests.benchmarks import document
from tests.faults.world import NOON, ManualClock
from tests.ledger.memory_ledger import MemoryLedger
from tools.local.paths import ROOT

#: Rows of a page, and messages of a receive.
PAGE, BATCH = 1_000, 16
TICK, WORK_SECONDS = 60, 2
DOCUMENT = ROOT / "docs" / "appendix" / "ledger.md"
#: The requests with which a tick ends each job, with and without a backlog: its row, the pointer to its retention,
#: its line in the list of jobs, its own pointer.
OF_AN_END = 4
#: The goal: the share of a backlog without losses in all requests.
MOST_SHARE = 0.01


@dataclass(frozen=True)
class Case:
    """One backlog: its jobs, how long it takes to work off, and the share of chunk messages that is lost."""

    jobs: int
    chunks: int
    lost: float
    seconds: int = 3_600
    overdue: int = 600
    queues: int = 1


CASES = (
    Case(8, 100, 0, seconds=434, overdue=60),
    Case(10, 4_000, 0),
    Case(10, 4_000, 0.01),
    Case(40_000, 1, 0),
    Case(40_000, 1, 0.01),
)


class Count:
    """Requests by who makes them."""

    def __init__(self):
        self.of, self.who = Counter(), "app"

    def add(self, number=1):
        """Count requests for whoever is at work."""
        self.of[self.who] += number


class Ledger(MemoryLedger):
    """Counts what a ledger in a table would request."""

    def __init__(self, count):
        super().__init__()
        self._count = count

    def read(self, job):
        """Read by one request."""
        self._count.add()
        return super().read(job)

    def rows(self, job):
        """Read by one request per thousand."""
        found = list(super().rows(job))
        self._count.add(1 + len(found) // PAGE)
        yield from found

    def commit(self, job, rows=(), messages=()):
        """Write by one request."""
        self._count.add()
        return super().commit(job, rows, messages)

    def tell_list(self, job):
        """Write its line in the list by one request."""
        self._count.add()


class Index:
    """The index of unfinished work, in memory."""

    def __init__(self, count):
        self._count, self._rows = count, {}

    def add(self, pointer):
        """Write a pointer."""
        self._count.add()
        self._rows[pointer.row_key] = pointer
        return pointer

    def remove(self, pointer):
        """Remove it, unless it was written again."""
        self._count.add()
        if self._rows.get(pointer.row_key) == pointer:
            del self._rows[pointer.row_key]

    def leads_to_a_job(self):
        """Return whether a tick still has to end a job."""
        return any(row.kind == JOB_POINTER for row in self._rows.values())

    def read_known(self, until, _most=None):
        """Return the pointers due by then, a page per request."""
        found = sorted((row for row in self._rows.values() if row.due <= until), key=lambda row: row.row_key)
        self._count.add(1 + len(found) // PAGE)
        return found, None


class Queue:
    """A work queue in memory: what was never received comes first, by the time of its put."""

    def __init__(self, name, world):
        self.queue_name, self._world, self.waiting = name, world, deque()

    def peek_messages(self, most, **_):
        """Show the front."""
        self._world.count.add()
        front = [self.waiting[n] for n in range(min(most, len(self.waiting)))]
        return [SimpleNamespace(inserted_on=at, dequeue_count=0) for _, at in front]


class World:
    """One installation with its backlog."""

    def __init__(self, case, seed=1):
        self.case, self.clock, self.count, self._random = case, ManualClock(), Count(), random.Random(seed)
        self.ledger, self.index = Ledger(self.count), Index(self.count)
        self.queues = {name: Queue(name, self) for name in work_queue_names(case.queues)}
        self.put, self.lost, self.needless, self.in_work = Counter(), set(), 0, deque()
        self.found_after, self.were_lost, self.complete, self.credit = 0, 0, 0, 0.0
        overdue = timedelta(seconds=case.overdue)
        plan = Plan(
            job="j", workload="billing", source=PayloadSource(codec="zstd", blob="b"),
            chunks=[PlannedChunk(n, [(0, 1, 1, "0")]) for n in range(case.chunks)],
        )  # fmt: skip
        plans = SimpleNamespace(read=self._read_plan)
        self._plan, call = plan, FinishCall(self.send, self.index, self.clock, work_queues=case.queues)
        dispatcher = Dispatcher(
            ledger=self.ledger, plans=plans, enclose=list, send=self.send, finish=None, halts=None, clock=self.clock,
            work_queues=case.queues, most_puts=lambda: 1,
        )  # fmt: skip
        self.starter = Starter(
            ledger=self.ledger, gates=None, dispatcher=dispatcher, pending=self.index, clock=self.clock,
            overdue=overdue,
            list_failures=lambda _job: (),
            direct=SimpleNamespace(take=lambda chunks, _room: chunks), ready=None, call_feeder=None,
        )  # fmt: skip
        sweep = Sweep(
            ledger=self.ledger, pending=self.index, starter=self.starter, stretching=None, finish=call,
            clock=self.clock, overdue=overdue,
            fronts=QueueFronts(list(self.queues.values()), self.index, self.clock),
            results=SimpleNamespace(are_behind=lambda _patience: False),
            retention=SimpleNamespace(begin=self._retain, follow=None),
        )  # fmt: skip
        self.finish, self.followers = call, Followers([(Range("pending", overdue), self.index)], self.clock)
        sweep.register(self.followers)

    def _read_plan(self, job, _blob):
        self.count.add()
        return replace_job(self._plan, job)

    def _retain(self, job):
        self.index.add(Pointer(RETENTION_POINTER, self.clock.now() + timedelta(days=30), job.job))

    def send(self, queue, text):
        """Put a message, or lose it on its way through storage."""
        self.count.add()
        message, now = decode(text.encode()), self.clock.now()
        key = (message.job, getattr(message, "chunk", -1))
        self.put[key] += 1
        if self.put[key] > 1:
            was_lost = key in self.lost
            self.needless += not was_lost
            if was_lost:
                self.lost.discard(key)
                self.found_after = max(self.found_after, (now - NOON).total_seconds())
        elif self._random.random() < self.case.lost:
            self.lost.add(key)
            self.were_lost += 1
            return now
        self.queues[queue].waiting.append((message, now))
        return now

    def accept(self, number):
        """Accept and dispatch a job."""
        now, chunks = self.clock.now(), self.case.chunks
        job = Job(job=f"job-{number}", content_hash="0", workload="billing", accepted_at=now)
        self.index.add(point_to_start(job.job, None, now, timedelta(seconds=self.case.overdue)))
        job, _ = self.ledger.insert(job)
        self.count.add()
        job = self.ledger.commit(record_plan(job, PlanBlob("p", "0"), chunks, chunks, 1))
        self.starter.start(job, is_new=True)

    def work(self, messages):
        """Let workers take so many messages, and settle what they took some seconds ago."""
        self.credit += messages
        for queue in self.queues.values():
            for _ in range(min(len(queue.waiting), round(self.credit / len(self.queues)))):
                message, _ = queue.waiting.popleft()
                self.in_work.append((self.clock.monotonic() + WORK_SECONDS, message))
                self.credit -= 1
        self.credit = min(self.credit, float(len(self.queues)))
        while self.in_work and self.in_work[0][0] <= self.clock.monotonic():
            message = self.in_work.popleft()[1]
            # Its share of a receive, its result, its removal from the queue.
            self.count.add(2)
            self._settle(message) if hasattr(message, "chunk") else self._end(message.job)

    def _settle(self, message):
        job, name = self.ledger.read(message.job), f"{message.job}/1/{message.chunk}"
        if message.chunk in self.ledger.rows_of(message.job, [message.chunk]):
            return
        made = Result(
            job=job.job, chunk=message.chunk, revision=1, blob=name, hash="0" * 64, accepted=PortionMessage(items=1, sums={})
        )  # fmt: skip
        settled = settle(job, {}, [made], self.clock.now())
        pointer = self.finish.point(job.job, 1) if settled.finish_due else None
        self.ledger.commit(settled.job, settled.rows)
        if pointer:
            self.finish.send(settled.job)
            self.finish.forget_pointer(pointer)

    def _end(self, job):
        ended = Balance(JobState.COMPLETE)
        before = self.ledger.read(job)
        self.complete += before.state is JobState.FINISHING
        change(self.ledger, job, lambda found: finish(found, 1, ended, self.clock.now()), tried="finish", known=before)

    def tick(self):
        """Run the sweep's part of a tick."""
        self.count.who = "tick"
        due = Due()
        for read in self.followers.reads(due):
            read()
        for step in self.followers.steps(due, self.clock.monotonic() + 40):
            step()
        self.count.who = "app"


def replace_job(plan, job):
    """Return the plan as that of another job: all jobs of a case are alike."""
    return type(plan)(job=job, workload=plan.workload, source=plan.source, chunks=plan.chunks)


def run(case, most_hours=12):
    """Work the whole backlog off."""
    world = World(case)
    for number in range(case.jobs):
        world.accept(number)
    rate = case.jobs * (case.chunks + 1) / case.seconds
    for second in range(1, most_hours * 3_600):
        world.clock.advance(seconds=1)
        world.work(rate)
        if second % TICK == 0:
            world.tick()
        if world.complete == case.jobs:
            # Until the ticks have ended the last of them.
            while world.index.leads_to_a_job():
                world.clock.advance(seconds=TICK)
                world.work(rate * TICK)
                world.tick()
            return world, second
    raise AssertionError(f"{case.jobs - world.complete} of {case.jobs} jobs are not complete after {most_hours} hours")


def main(_arguments: Sequence[str] = ()) -> int:
    """Run every case, print the table, write it into the page; 1 when a goal was missed."""
    logging.disable(logging.WARNING)
    rows, is_good = [], True
    for case in CASES:
        world, seconds = run(case)
        extra, whole = world.count.of["tick"] - OF_AN_END * case.jobs, world.count.of.total()
        again = sum(number - 1 for number in world.put.values())
        # What was lost is repaired at a price of its own.
        is_good &= not world.lost and (case.lost > 0 or extra / whole <= MOST_SHARE)
        rows.append(
            f"| {case.jobs:,} x {case.chunks:,} | {case.overdue} s | {world.were_lost:,} | {again:,} | {world.needless:,} "
            f"| {whole:,} | {extra:,} | {extra / whole:.2%} | {seconds / 60:.0f} min | {_found(world)} |"
        )
        print(rows[-1], flush=True)  # noqa: T201 - a command prints
    document.write(DOCUMENT, "backlog", "\n".join([*HEAD, *rows]))
    return 0 if is_good else 1


HEAD = (
    "| jobs x chunks | overdue after | lost | put again | needlessly | requests | for the backlog | share | done | last found |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)


def _found(world):
    return f"{world.found_after / 60:.0f} min" if world.were_lost else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
