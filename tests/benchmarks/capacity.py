"""The capacity model beside runs at 1, 2 and 4 processes: `make bench ARGS="--only capacity"`.

Measures the constants with one process and writes tools/planning/measured.json. Then it predicts jobs of another size, runs
them, and writes both into docs/appendix/capacity.md. `--predict` keeps the constants. `--items N`, `--runs N` and `--quick` make
it shorter.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.capacity_constants import LEAST, busy_cpu, measure
from tests.benchmarks.document import write
from tests.benchmarks.pipeline_sluice import SluiceRun, sluice
from tools.local.docs import markdown
from tools.local.paths import ROOT
from tools.planning.capacity import Stages, stages
from tools.planning.capacity_bill import count_requests
from tools.planning.load import Load, Machines
from tools.planning.measured import Constants, constants

DOCUMENT = ROOT / "docs" / "appendix" / "capacity.md"
INSTANCES = (1, 2, 4)
#: How far a prediction may be from the measured time.
NEAR = 0.25
#: The job of the workload that computes has so many times fewer transactions.
FEWER = 8


@dataclass(frozen=True, slots=True)
class Checked:
    """One job with so many processes: predicted and measured."""

    workload: str
    load: Load
    predicted: Stages
    runs: Sequence[SluiceRun]

    @property
    def seconds(self) -> float:
        """The measured seconds."""
        return median(one.run.seconds for one in self.runs)

    @property
    def ratio(self) -> float:
        """Predicted against measured."""
        return self.predicted.total / self.seconds

    @property
    def requests(self) -> float:
        """Measured requests, without the polls of queues that were empty or not."""
        return median(
            one.run.requests - sum(n for what, n in one.by_host.items() if "poll" in what and "GET" in what)
            for one in self.runs
        )


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, predict, run, write; 1 when a prediction is too far off."""
    options = _options(arguments)
    found = constants() if options.predict else measure(options.fit, options.runs, options.pieces)
    # The tables of the page follow from the constants.
    subprocess.run([sys.executable, "-m", "tools.local", "docs"], cwd=ROOT, check=True)
    checked = [
        one for count in options.processes or INSTANCES for one in _check(found, count, options.items, options.runs)
    ]
    text = f"{_about(found, options)}\n\n{_table(checked, found)}"
    print(text)  # noqa: T201 - commands print
    write(DOCUMENT, "capacity", text)
    return int(any(abs(one.ratio - 1) > NEAR for one in checked))


def _check(found: Constants, instances: int, items: int, runs: int) -> list[Checked]:
    cases = {
        "billing": Load(transactions=items),
        "busy": Load(transactions=items // FEWER, cpu=busy_cpu(), accounts=1),
    }
    machines = Machines(most=instances, round_trip=0.0, shared_cores=os.cpu_count() or 1)
    with sluice(None, instances=instances) as running:
        running.run(LEAST)
        return [
            Checked(
                workload,
                load,
                stages(load, machines, found, instances),
                [running.run(load.transactions, workload) for _ in range(runs)],
            )
            for workload, load in cases.items()
        ]


def _about(found: Constants, options: argparse.Namespace) -> str:
    return (
        f"Constants of {found.machine}, from jobs of {options.fit:,}; here jobs of {options.items:,} (`busy`: "
        f"{options.items // FEWER:,}), medians of {options.runs}. All processes share {os.cpu_count()} cores with the "
        "emulators, which the prediction takes into account."
    )


def _table(checked: Sequence[Checked], found: Constants) -> str:
    rows = [
        (
            one.workload,
            str(one.predicted.instances),
            f"{one.predicted.total:.1f} s",
            f"{one.seconds:.1f} s",
            f"{one.ratio:.2f}",
            _sum(getattr(one.predicted, name) for name in ("publish", "start", "work", "finish")),
            _sum(median(run.stretches[name] for run in one.runs) for name in one.runs[0].stretches),
            one.predicted.first.name,
            f"{count_requests(one.load, found).storage:,}",
            f"{one.requests:,.0f}",
        )
        for one in checked
    ]
    head = ("workload", "processes", "predicted", "measured", "ratio", "publish + start + work + finish", "measured")
    return markdown((*head, "ceiling predicted", "requests predicted", "measured, without polls"), rows)


def _sum(seconds: Iterable[float]) -> str:
    return " + ".join(f"{one:.1f}" for one in seconds)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="capacity", description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000, help="transactions of the predicted job")
    parser.add_argument("--fit", type=int, default=400_000, help="transactions of the jobs for the constants")
    parser.add_argument("--pieces", type=int, default=1_000_000, help="transactions of the job in pieces")
    parser.add_argument("--runs", type=int, default=3, help="runs of each job")
    parser.add_argument("--processes", type=int, action="append", help="so many processes; may be repeated")
    parser.add_argument("--predict", action="store_true", help="keep the constants that are there")
    parser.add_argument("--quick", action="store_true", help="everything once, and small")
    options = parser.parse_args(arguments)
    if options.quick:
        options.items, options.fit, options.pieces, options.runs = 200_000, 100_000, 200_000, 1
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
