"""A job of 10,000,000 in pieces, and ten jobs side by side: `make bench ARGS="--only large_job"`.

Each stage is a process of its own, one after the other (`large_job_stage` says what is real and what is simulated). So the
figures are of one process without anybody beside it. `-- --items 100000 --items 1000000` runs other sizes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from shared.settings import BILLING
from shared.topology import topology
from tests.benchmarks.document import write
from tests.benchmarks.large_job_stage import LAST, STAGES
from tools.local.azurite.launcher import Azurite
from tools.local.docs import markdown
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import settings_for

DOCUMENT = ROOT / "docs" / "appendix" / "capacity.md"
SIZES = (100_000, 1_000_000, 10_000_000)
#: Jobs side by side, and the transactions of each.
JOBS, SIDE_BY_SIDE = 10, 1_000_000
#: How much more per transaction than at the size before still counts as flat.
FLAT = 1.15
#: A process takes no more than this, and a tick no longer: its bound, and a group that it ends.
MOST_MEMORY, LONGEST_TICK = 512 * 2**20, 45.0
PATIENCE = 3_600
#: As infra/ deploys the app.
AS_DEPLOYED = {**os.environ, "MALLOC_ARENA_MAX": "2"}
MIB = 2**20
#: Jobs of fewer transactions have smaller chunks, so their cost per transaction differs by intention.
CHUNK = 8_000


@dataclass(frozen=True, slots=True)
class Case:
    """So many jobs of one size."""

    jobs: int
    items: int

    @property
    def name(self) -> str:
        """How the page calls it."""
        return f"{self.items:,}" if self.jobs == 1 else f"{self.jobs} x {self.items:,}"


def main(arguments: Sequence[str] = ()) -> int:
    """Run every case, write the tables; 1 when something grows, or a bound is passed."""
    options = _options(arguments)
    cases = [Case(1, items) for items in options.items or SIZES]
    if options.jobs > 1:
        cases.append(Case(options.jobs, options.each))
    found = {case: run(case, options.chunk) for case in cases}
    grown = growth(found)
    text = "\n\n".join([_about(cases, options.chunk), _table(found), _growth_table(grown)])
    print(text)  # noqa: T201 - commands print
    write(DOCUMENT, "large_job", text)
    return int(any(ratio > FLAT for _, _, ratio in grown) or _is_beyond(found))


def run(case: Case, chunk: int) -> dict[str, dict[str, Any]]:
    """Run every stage of one case on an Azurite of its own, and return what each took."""
    names = [f"large-{number}" for number in range(case.jobs)]
    with Azurite.start() as azurite, tempfile.TemporaryDirectory() as folder:
        provision(azurite.connection_string, topology())
        settings = settings_for(azurite.connection_string, "in this process") | {
            "SLUICE_CHUNK_ITEMS": str(chunk),
            "SLUICE_WORKLOADS": BILLING,
        }
        role = {"settings": settings, "jobs": names, "items": case.items, "folder": folder}
        found = {}
        for stage in STAGES:
            if stage == LAST:
                role["jobs"] = [f"lost-{name}" for name in names]
                for before in ("publish", "accept"):
                    _stage({**role, "stage": before})
            found[stage] = one = _stage({**role, "stage": stage})
            print(f"{case.name}: {stage} {one['wall']:.1f} s, {one['requests']:,} requests", flush=True)  # noqa: T201
    return found


def growth(found: Mapping[Case, Mapping[str, Mapping[str, Any]]]) -> list[tuple[str, str, float]]:
    """Return for each stage how its CPU and its requests per transaction grow from the size before, the worst step."""
    sizes = sorted((case for case in found if case.jobs == 1), key=lambda case: case.items)
    grown = []
    for stage in STAGES:
        for what in ("cpu", "requests"):
            each = [found[case][stage][what] / case.items for case in sizes]
            steps = [after / before for before, after in pairwise(each) if before]
            grown.append((stage, what, max(steps, default=0.0)))
    return grown


def _stage(role: Mapping[str, object]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.large_job_stage", json.dumps(role)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=PATIENCE, check=False, env=AS_DEPLOYED)
    if done.returncode:
        raise RuntimeError(f"stage {role['stage']} of {role['jobs']} ended with {done.returncode}: see above")
    made: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return made


def _is_beyond(found: Mapping[Case, Mapping[str, Mapping[str, Any]]]) -> bool:
    every = [one for stages in found.values() for one in stages.values()]
    return any(one["peak"] > MOST_MEMORY or one["longest"] > LONGEST_TICK for one in every)


def _about(cases: Sequence[Case], chunk: int) -> str:
    return (
        f"Cases: {', '.join(case.name for case in cases)} transactions, chunks of {chunk:,}, 500 accounts, workload "
        f"`billing`. {os.cpu_count()} cores, Azurite in memory."
    )


def _table(found: Mapping[Case, Mapping[str, Mapping[str, Any]]]) -> str:
    rows = []
    for case, stages in found.items():
        items = case.jobs * case.items
        for name, one in stages.items():
            tick = f"{one['longest']:.1f} s of {one['ticks']}" if one["ticks"] else ""
            rows.append(
                (
                    case.name,
                    name,
                    f"{one['wall']:.1f} s",
                    f"{one['cpu'] / items * 1e6:.3f}",
                    f"{one['requests']:,}",
                    f"{one['requests'] / items * 1000:.3f}",
                    f"{one['peak'] / MIB:.0f} MiB",
                    tick,
                )
            )
    head = ("transactions", "stage", "took", "CPU µs each", "requests", "per 1,000", "most memory", "longest tick")
    return markdown(head, rows)


def _growth_table(grown: Sequence[tuple[str, str, float]]) -> str:
    rows = [
        (stage, {"cpu": "CPU", "requests": "requests"}[what], f"{ratio:.2f}x", "yes" if ratio <= FLAT else "NO")
        for stage, what, ratio in grown
    ]
    return markdown(("stage", "per transaction", "against the size before, at most", f"at most {FLAT:g}x"), rows)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="large_job", description=__doc__)
    parser.add_argument("--items", type=int, action="append", help="a size of one job; may be repeated")
    parser.add_argument("--jobs", type=int, default=JOBS, help="jobs side by side; 1 leaves them out")
    parser.add_argument("--each", type=int, default=SIDE_BY_SIDE, help="transactions of each of them")
    parser.add_argument("--chunk", type=int, default=CHUNK, help="transactions of a chunk")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
