"""What pages of the console take with 10,000 jobs, 2,000 parked entries and 50 gates: time, bytes, storage requests.

    python -m tests.benchmarks.console          (part of `make bench`; writes its table into docs/appendix/console.md)

Azurite holds everything; Werkzeug's client visits the pages as a browser would. Each page is opened first by a process
that has read nothing, then again and again, each time so late that everything it shows is too old.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import groupby
from statistics import median
from types import SimpleNamespace

from shared.app import Stores
from shared.azure import write_group
from shared.concurrency.rules import SAMPLE
from shared.ledger import JobState
from shared.ledger.table_ledger import JobList
from shared.operating.audit import AuditedAct
from shared.parked.entry import chunk_key
from shared.topology import topology
from tests.benchmarks import document
from tests.console.conftest import Installation
from tests.console.fillings import NOON, decide, hold, make_entry, make_job, park, put_job
from tests.console.test_rules import find_address, send_rules
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision

DOCUMENT = ROOT / "docs" / "appendix" / "console.md"
JOBS, OPEN, PARKED, CAUSES, GATES, HELD, ACTS = 10_000, 50, 2_000, 3, 50, 1_000, 300
#: The goals of a warm page, of the first Parked page, and of a list.
MOST_MS, MOST_FIRST_MS, MOST_BYTES, OF_A_LIST = 100, 500, 60_000, 1
#: Visits, of which the median counts. A first visit needs a console of its own.
VISITS, FIRST_VISITS = 15, 5
LATER = 90
MOST_OF_A_GROUP = 100
STATES = (JobState.COMPLETE, JobState.COMPLETE, JobState.COMPLETED_WITH_PARKED, JobState.UNBALANCED, JobState.BURIED)
LARGE = "job-00000"


@dataclass(frozen=True)
class Page:
    """A page, whether it is a list that is to be one request, and whether its first visit has a goal."""

    words: str
    path: str
    is_list: bool = False
    is_parked: bool = False
    #: It simulates two days, so it has no goal of time; its size and requests count.
    is_dry_run: bool = False


PAGES = (
    Page("Now, 50 open jobs", "/"),
    Page("Jobs", "/jobs", is_list=True),
    Page("Jobs in one state", "/jobs?state=unbalanced", is_list=True),
    Page(
        "Jobs of a workload, a gate and a day",
        "/jobs?workload=sales&gate=gate-07&since=2026-11-10&before=2026-11-11",
        is_list=True,
    ),
    Page("Jobs by the beginning of an id", "/jobs?id=job-000", is_list=True),
    Page("Job of 1,000 chunks", f"/job/{LARGE}"),
    Page("Gates", "/gates"),
    Page("Gate", "/gate/gate-07"),
    Page("Parked", "/parked", is_parked=True),
    Page("Parked: a cause", "/parked/cause-0", is_parked=True),
    Page("Parked: an entry", f"/parked/{LARGE}/{chunk_key(1, 1)}"),
    Page("Replays", "/replays", is_list=True),
    Page("Rules", "/rules"),
    Page("Rules: a dry run of the synthetic day", "/rules/dry-run", is_dry_run=True),
    Page("Cost", "/cost", is_list=True),
    Page("Audit", "/audit", is_list=True),
    Page("Ids", "/ids"),
)


def main(_arguments: Sequence[str] = ()) -> int:
    """Fill storage, visit every page, write the table; 1 when a goal was missed."""
    rows, missed = list(HEAD), []
    with Azurite.start() as running:
        provision(running.connection_string, topology())
        with Installation(running.connection_string).connections as connections:
            fill(Stores(connections))
        for page in PAGES:
            line, problems = measure(page, running.connection_string)
            rows.append(line)
            missed += problems
            print(line, flush=True)  # noqa: T201 - a command prints
    document.write(DOCUMENT, "console", "\n".join(rows))
    print("\n".join(missed))  # noqa: T201
    return int(bool(missed))


HEAD = (
    "| page | first of a process | requests | warm | requests | HTML |",
    "| --- | --- | --- | --- | --- | --- |",
)


def measure(page, connection_string):
    """Return the line of a page, and the goals that it missed."""
    firsts = [visit_first(page, connection_string) for _ in range(FIRST_VISITS)]
    house = Installation(connection_string)
    with house.connections:
        visitor, warm = house.visitor(), []
        for _ in range(VISITS + 1):
            house.clock.advance(LATER)
            warm.append(visit(house, visitor, page))
    # The first of them was cold.
    took, requests = median(one[0] for one in warm[1:]), max(one[1] for one in warm[1:])
    size, first, cold = max(one[2] for one in warm), median(one[0] for one in firsts), max(one[1] for one in firsts)
    missed = [
        *([f"{page.words}: {took:.0f} ms"] if took > MOST_MS and not page.is_dry_run else []),
        *([f"{page.words}: {size:,} bytes"] if size > MOST_BYTES else []),
        *([f"{page.words}: the first took {first:.0f} ms"] if page.is_parked and first > MOST_FIRST_MS else []),
        *([f"{page.words}: {requests} requests"] if page.is_list and {cold, requests} != {OF_A_LIST} else []),
    ]
    return f"| {page.words} | {first:.0f} ms | {cold} | {took:.0f} ms | {requests} | {size / 1000:.0f} kB |", missed


def visit_first(page, connection_string):
    """Visit a page by a console that has read nothing and made no connection."""
    house = Installation(connection_string)
    with house.connections:
        return visit(house, house.visitor(), page)


def visit(house, visitor, page):
    """Return the milliseconds, the requests and the bytes of a visit."""
    ask = partial(visitor.get, page.path)
    if page.is_dry_run:
        ask = partial(send_rules, visitor, find_address(visitor), SAMPLE)
    began = time.perf_counter()
    reply, requests = house.count(ask)
    took = (time.perf_counter() - began) * 1000
    assert reply.status_code == 200, (page.path, reply.status_code, reply.text[:500])
    return took, requests, len(reply.data)


def fill(stores):
    """Store jobs, gates with what they hold, parked entries, rules, acts and a decision."""
    decide(stores)
    stores.rules.put(SAMPLE)
    for number in range(ACTS):
        with stores.audit.record(AuditedAct("dana", "gate open", f"gate-{number % GATES:02}", "the partner is ready")):
            pass
    put_job(stores, make_job(LARGE, chunks=1000, done=310, parked=3))
    for number in range(1, OPEN):
        put_job(stores, make_job(f"job-{number:05}", chunks=4, done=1))
    list_jobs(stores)
    for number in range(GATES):
        name = f"gate-{number:02}"
        stores.gate_operator.open(name, by="dana")
        if number % 2:
            hold(stores, name, HELD // (GATES // 2), NOON - timedelta(minutes=number))
    for number in range(PARKED):
        job = LARGE if number < PARKED // 4 else f"job-{number % 40:05}"
        park(stores, make_entry(job, number, fingerprint=f"cause-{number % CAUSES}"))


def list_jobs(stores):
    """Write the lines of jobs that ended, as the ledger would, a hundred at a time."""
    lines = []
    listing = JobList(SimpleNamespace(upsert_entity=lambda entity, mode: lines.append(entity)), None)
    for number in range(OPEN, JOBS):
        at = NOON - timedelta(minutes=4 * number)
        state, gate = STATES[number % len(STATES)], f"gate-{number % GATES:02}"
        job = make_job(f"job-{number:05}", chunks=10, done=10, accepted_at=at, state=state, gate=gate)
        workload = "sales" if number % 3 else "billing"
        listing.tell(replace(job, workload=workload, finished_at=at + timedelta(minutes=9), listed_at=at))
    table = stores.connections.tables.get_table_client("jobindex")
    for _, month in groupby(lines, key=lambda line: line["PartitionKey"]):
        of_month = list(month)
        for first in range(0, len(of_month), MOST_OF_A_GROUP):
            write_group(table, [("upsert", line) for line in of_month[first : first + MOST_OF_A_GROUP]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
