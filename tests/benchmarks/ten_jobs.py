"""Memory of ten jobs of 1,000,000 one after another in one process of the app: `make bench ARGS="--only ten_jobs"`.

One stack with one worker process runs all jobs. After each job the memory that the process holds and the most that it held
are read in /proc. The publisher is a process for each job, and says its own. `-- --items N` makes the jobs smaller.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.benchmarks.document import write
from tests.benchmarks.pipeline_sluice import Sluice, sluice
from tools.local.docs import markdown
from tools.local.paths import ROOT

DOCUMENT = ROOT / "docs" / "appendix" / "capacity.md"
JOBS, ITEMS = 10, 1_000_000
MOST = 256 * 2**20
#: The last half of the jobs may hold so much more than the first half: what allocators keep differs by some MiB.
GROWTH = 1.05
MIB = 2**20


@dataclass(frozen=True, slots=True)
class After:
    """The memory of each process after one job, in bytes."""

    seconds: float
    #: By the process: what it holds, and the most that it held.
    held: dict[str, int]
    most: dict[str, int]
    publisher: int


def main(arguments: Sequence[str] = ()) -> int:
    """Run the jobs, write the table; 1 when a process takes too much, or grows."""
    parser = argparse.ArgumentParser(prog="ten_jobs", description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS, help="transactions of each job")
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs, one after the other")
    parser.add_argument("--instances", type=int, default=1, help="worker processes")
    options = parser.parse_args(arguments)
    # As infra/ deploys the app. Without it the C library keeps more for each of its threads, some MiB more after each job.
    os.environ["MALLOC_ARENA_MAX"] = "2"
    with sluice(None, instances=options.instances) as running:
        found = [_after(running, options.items) for _ in range(options.jobs)]
    grown, most = growth(found), max(max(*one.most.values(), one.publisher) for one in found)
    about = (
        f"{options.jobs} jobs of {options.items:,} transactions, one after the other; chunks of the default size, "
        f"`MALLOC_ARENA_MAX=2`; worker processes: {options.instances}."
    )
    goals = [
        ("most memory of any process: at most 256 MiB", f"{most / MIB:.0f} MiB", _yes(most <= MOST)),
        (f"the last half of the jobs against the first: at most {GROWTH:g}x", f"{grown:.2f}x", _yes(grown <= GROWTH)),
    ]
    text = "\n\n".join([about, _table(found), markdown(("goal", "found", ""), goals)])
    print(text)  # noqa: T201 - commands print
    write(DOCUMENT, "ten_jobs", text)
    return int(most > MOST or grown > GROWTH)


def growth(found: Sequence[After]) -> float:
    """Return what the processes hold in the last half of the jobs against the first half, the worst process."""
    # The first job loads libraries and opens connections.
    settled = found[1:]
    half = len(settled) // 2
    if not half:
        return 1.0
    return max(
        median(one.held[name] for one in settled[-half:]) / median(one.held[name] for one in settled[:half])
        for name in found[0].held
    )


def _after(running: Sluice, items: int) -> After:
    run = running.run(items)
    pids = running.pids()
    found = After(
        run.run.seconds,
        {name: _held(pid) for name, pid in pids.items()},
        {name: run.peaks[name] for name in pids},
        run.peaks["publisher"],
    )
    print(f"{run.run.seconds:.1f} s, {found.held}", flush=True)  # noqa: T201 - commands print
    return found


def _held(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) * 1024


def _table(found: Sequence[After]) -> str:
    rows = [
        (
            str(number),
            f"{one.seconds:.1f} s",
            ", ".join(f"{size / MIB:.0f}" for size in one.held.values()),
            ", ".join(f"{size / MIB:.0f}" for size in one.most.values()),
            f"{one.publisher / MIB:.0f}",
        )
        for number, one in enumerate(found, 1)
    ]
    return markdown(("job", "took", "worker holds, MiB", "worker's most so far, MiB", "publisher's most, MiB"), rows)


def _yes(is_met: bool) -> str:  # noqa: FBT001 - a predicate
    return "yes" if is_met else "NO"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
