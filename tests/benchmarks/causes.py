"""What pages and the list take with 20,000 and 100,000 parked entries.

    python -m tests.benchmarks.causes          (part of `make bench`; writes its table into docs/appendix/console.md)

Azurite holds the entries. The pages are visited as by `console`. The list is the command in a process of its own.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import groupby
from statistics import median

from shared.app import Stores
from shared.azure import write_group
from shared.parked.cause_index import MOST_TOGETHER
from shared.parked.parked_table import _row
from shared.topology import topology
from tests.benchmarks import document
from tests.benchmarks.console import DOCUMENT, LATER, MOST_OF_A_GROUP, Page, visit
from tests.console.conftest import Installation
from tests.console.fillings import NOON, decide, make_entry
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision

#: Entries, and the causes and jobs among which they are divided.
SIZES, CAUSES, JOBS = (20_000, 100_000), 5, 100
#: The goals.
MOST_MS, MOST_LIST_SECONDS = 100, 3
VISITS, LISTS = 9, 3
PAGES = (Page("Now", "/"), Page("Parked", "/parked", is_parked=True))
HEAD = ("| parked | Now | Parked | `parked list` |", "| --- | --- | --- | --- |")


def main(_arguments: Sequence[str] = ()) -> int:
    """Fill storage in two steps, measure after each, write the table; 1 when a goal was missed."""
    rows, missed, number = list(HEAD), [], 0
    with Azurite.start() as running:
        provision(running.connection_string, topology())
        for size in SIZES:
            with Installation(running.connection_string).connections as connections:
                fill(Stores(connections), number, size)
            number = size
            took = [measure(page, running.connection_string) for page in PAGES]
            listed = median(list_parked(running.connection_string) for _ in range(LISTS))
            rows.append(f"| {size:,} | {took[0]:.0f} ms | {took[1]:.0f} ms | {listed:.1f} s |")
            print(rows[-1], flush=True)  # noqa: T201 - a command prints
            missed += [rows[-1]] if max(took) > MOST_MS or listed > MOST_LIST_SECONDS else []
    document.write(DOCUMENT, "causes", "\n".join(rows))
    print("\n".join(missed))  # noqa: T201
    return int(bool(missed))


def fill(stores, first, size):
    """Store entries as rows, without bytes, and count them as the daily comparison does."""
    decide(stores)
    table = stores.connections.tables.get_table_client("parked")
    entries = [
        make_entry(f"job-{number % JOBS:03}", number, fingerprint=f"cause-{number % CAUSES}")
        for number in range(first, size)
    ]
    for _, of_job in groupby(sorted(entries, key=lambda entry: entry.job), key=lambda entry: entry.job):
        rows = [("upsert", _row(entry)) for entry in of_job]
        for begin in range(0, len(rows), MOST_OF_A_GROUP):
            write_group(table, rows[begin : begin + MOST_OF_A_GROUP])
    for begin in range(0, len(entries), MOST_TOGETHER):
        stores.causes.record([], entries[begin : begin + MOST_TOGETHER])
    stores.causes.note_checked(NOON)


def measure(page, connection_string):
    """Return the milliseconds of a warm visit, each time so late that all that is shown is too old."""
    house, taken = Installation(connection_string), []
    with house.connections:
        visitor = house.visitor()
        for _ in range(VISITS + 1):
            house.clock.advance(LATER)
            taken.append(visit(house, visitor, page)[0])
    return median(taken[1:])


def list_parked(connection_string):
    """Return the seconds of the command, from its start to its end."""
    environ = {**os.environ, "SluiceStorage": connection_string}
    began = time.perf_counter()
    command = [str(ROOT / ".venv" / "bin" / "sluice"), "parked", "list"]
    subprocess.run(command, check=True, cwd=ROOT, env=environ, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
