"""What the work of a job may be, at its bounds: `make bench ARGS="--only work"`, or `-- --part lines --items 1000000`.

Its parts are jobs of 10,000,000 lines and of 10,000,000 accounts, each stage in a process of its own (`many_accounts` says
what is real and what is simulated). `work_checker` judges by the published files alone.
"""

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from shared.pipeline.segments import CUT_ABOVE
from shared.settings import BILLING
from shared.topology import topology
from tests.benchmarks import many_accounts
from tests.benchmarks.document import write
from tests.benchmarks.many_accounts import ABOVE, REPEATED, WORKLOAD
from tests.benchmarks.work_calls import calls, waits
from tests.benchmarks.work_crimes import crimes
from tests.benchmarks.work_deployed import killed, one
from tests.benchmarks.work_part import Part, judge, judged, note
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import settings_for

DOCUMENT = ROOT / "docs" / "appendix" / "work.md"
ITEMS = 10_000_000
#: The job that is run with lines and without, by turns; and how much more CPU lines may take.
COMPARED, TURNS, MOST_CPU = 800_000, 3, 1.35
ACTS = ("publish", "accept", "process", "settle", "finish")


def lines(items: int) -> Part:
    """Run a job that makes a line of each transaction, at the default settings."""
    part = Part(("stage", "CPU s", "requests", "most memory, MiB"))
    with Azurite.start() as azurite, tempfile.TemporaryDirectory() as folder:
        settings = {"SLUICE_WORKLOADS": "tests.benchmarks.work_bodies:Etl", WORKLOAD: "etl"}
        for one in _run(azurite, settings, items, folder, [*ACTS[:-1], f"{REPEATED}finish"]):
            note(part, one)
        found = judged(azurite.connection_string, "job/1", "lines-", items)
    judge(part, found, items)
    ratio, spent = compare()
    part.said += (
        f"{COMPARED:,} transactions of billing took {spent[False]:.2f} s of CPU without lines and {spent[True]:.2f} s with, "
        f"medians of {TURNS}: {ratio:.2f} times, at most {MOST_CPU} are allowed. "
    )
    if ratio > MOST_CPU:
        part.breaches.append(f"lines take {ratio:.2f} times the CPU")
    return part


def accounts(items: int) -> Part:
    """Run a job each of whose transactions has an account of its own."""
    part = Part(("stage", "CPU s", "requests", "most memory, MiB"))
    with Azurite.start() as azurite, tempfile.TemporaryDirectory() as folder:
        settings = {"SLUICE_WORKLOADS": BILLING, WORKLOAD: "billing", ABOVE: str(CUT_ABOVE)}
        for one in _run(azurite, settings, items, folder, ACTS):
            note(part, one)
        found = judged(azurite.connection_string, "job/1", "output-", items)
    judge(part, found, items)
    return part


def compare() -> tuple[float, dict[bool, float]]:
    """Return the ratio of the CPU with lines to that without, and both in seconds. The publisher is left out: it has no part."""
    spent: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(TURNS):
        for has_lines, turns in spent.items():
            with Azurite.start() as azurite, tempfile.TemporaryDirectory() as folder:
                workload = "tests.benchmarks.job_lines:Lined" if has_lines else BILLING
                acts = [f"{REPEATED}{act}" for act in ACTS]
                found = list(_run(azurite, {"SLUICE_WORKLOADS": workload}, COMPARED, folder, acts))
                turns.append(sum(one["cpu"] for one in found[1:]))
    medians = {has_lines: sorted(turns)[TURNS // 2] for has_lines, turns in spent.items()}
    return medians[True] / medians[False], medians


def _run(azurite: Azurite, more: dict[str, str], items: int, folder: str, acts: Sequence[str]) -> Any:
    provision(azurite.connection_string, topology())
    settings = settings_for(azurite.connection_string, "in this process") | more
    yield from many_accounts.run({"settings": settings, "jobs": ["job"], "items": items, "folder": folder}, acts)


PARTS: dict[str, Callable[[int], Part]] = {
    part.__name__: part for part in (lines, accounts, killed, one, crimes, calls, waits)
}


def main(arguments: Sequence[str] = ()) -> int:
    """Run the parts, write their tables; 1 if anything is not as it must be."""
    parser = argparse.ArgumentParser(prog="work", description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="the parts to run; all if none is named")
    parser.add_argument("--items", type=int, default=ITEMS, help="transactions of a large job")
    parser.add_argument("--dry", action="store_true", help="leave the page as it is")
    options = parser.parse_args(arguments)
    is_bad = False
    for name in options.part or PARTS:
        part = PARTS[name](options.items)
        text = f"{part.text}\n\n{os.cpu_count()} cores, Python {platform.python_version()}."
        print(f"{name}\n{text}", flush=True)  # noqa: T201 - commands print
        is_bad = is_bad or bool(part.breaches)
        if not options.dry:
            write(DOCUMENT, name, text)
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
