"""The main part of `make demo`: three jobs held behind a gate, released at once, watched to their end, and their bill."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from shared.app import Stores
from shared.azure import Connections
from shared.ledger import FINISHED, Job, JobState, Ledger
from shared.publish import Publisher
from shared.usage import REQUESTS_OF_A_MESSAGE, bill_of, load
from shared.zstd import unpack
from tools.local.errors import StackError
from tools.local.stack import Stack

GATE = "nightly"
JOBS = ("demo-north", "demo-south", "demo-west")
ITEMS = 20_000
ACCOUNTS = 400
#: Five minutes: a hundred times what it takes on an idle machine.
SOON = 300.0
FIRST_LINES = 3


def run(stack: Stack, console: Console) -> None:
    """Run the main job and print what became of it."""
    with Connections.parse(stack.settings) as connections:
        ledger, began = Stores(connections).ledger, time.monotonic()
        _publish(connections)
        _wait_until(ledger, JobState.HELD)
        console.print(
            f"[green]✓[/green] {len(JOBS)} jobs of {ITEMS:,} billing transactions each dropped, planned and held behind "
            f"gate {GATE!r} ({time.monotonic() - began:.1f} s)"
        )
        Stores(connections).gate_operator.open(GATE, by="demo", why="to show a release")
        _watch(ledger, console)
        _report(connections, [_read(ledger, job) for job in JOBS], console)


def _publish(connections: Connections) -> None:
    with Publisher.connect(connections) as publisher:
        for seed, job in enumerate(JOBS):
            publisher.submit(job=job, workload="billing", gate=GATE, sums=["quantity"], transactions=_usages(seed))


def _usages(seed: int) -> Iterator[Mapping[str, str]]:
    dice = random.Random(seed)  # noqa: S311 - made-up usage, the same at every run
    for number in range(ITEMS):
        # One in five hundred names a plan that does not exist, so that there is something to reject.
        plan = "unknown" if number % 500 == 0 else dice.choice(("basic", "standard", "premium"))
        quantity = f"{dice.randrange(1, 2_000)}.{dice.randrange(100):02}"
        yield {"account": f"account-{dice.randrange(ACCOUNTS):04}", "plan": plan, "quantity": quantity}


def _read(ledger: Ledger, job: str) -> Job:
    found = ledger.read(job)
    if found is None:
        raise StackError(f"job {job!r} was not accepted: `sluice parked list` says why")
    return found


def _wait_until(ledger: Ledger, state: JobState) -> None:
    end = time.monotonic() + SOON
    while not all((found := ledger.read(job)) and found.state is state for job in JOBS):
        if time.monotonic() > end:
            raise StackError(f"the demo's jobs are not {state.value} after {SOON:g} s; look at the host's log")
        time.sleep(0.2)


def _watch(ledger: Ledger, console: Console) -> None:
    end, columns = time.monotonic() + SOON, (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TextColumn("chunks"), TimeElapsedColumn(), console=console) as bar:
        tasks = {job: bar.add_task(job, total=_read(ledger, job).chunks) for job in JOBS}
        while tasks:
            for job, task in list(tasks.items()):
                found = _read(ledger, job)
                bar.update(task, description=f"{job} {found.state.value}", completed=found.ended_chunks)
                if found.state in FINISHED:
                    del tasks[job]
            if time.monotonic() > end:
                raise StackError(f"jobs {', '.join(tasks)} did not finish within {SOON:g} s; look at the host's log")
            time.sleep(0.2)


def _report(connections: Connections, jobs: list[Job], console: Console) -> None:
    table = Table("", *(job.job for job in jobs))
    lines: Mapping[str, Callable[[Job], object]] = {
        "state": lambda job: job.state.value,
        "accepted": lambda job: f"{job.totals.accepted.items:,}",
        "rejected, with a reason each": lambda job: f"{job.totals.rejected.items:,}",
        "parked": lambda job: f"{job.totals.parked.items:,}",
        "quantity declared": lambda job: job.declared.get("quantity", 0),
        "quantity accepted": lambda job: job.totals.accepted.sums.get("quantity", 0),
        "quantity rejected": lambda job: job.totals.rejected.sums.get("quantity", 0),
        "from release to first chunk": lambda job: _seconds(_lag(connections, job)),
        "from first chunk to the end": lambda job: _seconds(_took(job)),
    }
    for name, value in lines.items():
        table.add_row(name, *(str(value(job)) for job in jobs))
    console.print(table)
    _print_bill(jobs, console)
    _print_outputs(connections, jobs[0], console)
    unfinished = [job.job for job in jobs if job.state is not JobState.COMPLETE]
    if unfinished:
        raise StackError(f"jobs {', '.join(unfinished)} did not complete: the table above says how they ended")


def _lag(connections: Connections, job: Job) -> timedelta | None:
    opened = Stores(connections).gates.read(GATE).at
    return None if opened is None or job.started_at is None else job.started_at - opened


def _took(job: Job) -> timedelta | None:
    return None if job.finished_at is None or job.started_at is None else job.finished_at - job.started_at


def _seconds(duration: timedelta | None) -> str:
    return "" if duration is None else f"{duration.total_seconds():.2f} s"


def _print_bill(jobs: list[Job], console: Console) -> None:
    bills = [bill_of(job, load()) for job in jobs]
    items, requests = sum(job.items for job in jobs), sum(bill.requests for bill in bills)
    amount, one_by_one = sum(bill.total for bill in bills), sum(bill.one_by_one.total for bill in bills)
    console.print(
        f"What it cost: {requests:,} requests and bus operations, {requests / items:.4f} a transaction, {amount:.4f} "
        f"{bills[0].prices.currency}; one message for each transaction: {REQUESTS_OF_A_MESSAGE * items:,} requests, "
        f"{one_by_one:.4f}. Prices: {bills[0].prices}. One job's bill, line by line: sluice cost job {jobs[0].job}"
    )


def _print_outputs(connections: Connections, job: Job, console: Console) -> None:
    outputs, folder = connections.blobs.get_container_client("outputs"), f"{job.job}/{job.revision}/"
    names = [blob.name for blob in outputs.list_blobs(name_starts_with=folder) if blob.name.endswith(".ndjson.zst")]
    console.print(f"Outputs of {job.job} are in container outputs, {folder}: {len(names)} files. {names[0]} begins:")
    content = outputs.download_blob(names[0], decompress=False).readall()
    text = unpack(content).decode()
    for line in text.splitlines()[:FIRST_LINES]:
        console.print(f"    {line}", highlight=False, soft_wrap=True)
