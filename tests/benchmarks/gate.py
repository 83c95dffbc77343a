"""How late waiters are for a gate: 200 of them in 8 processes against the local stack, with lost pushes and no bus.

`make bench ARGS="--only gate"` prints the table, puts it into docs/appendix/gate.md, and fails when a promise is broken.
"""

import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from servicebus_local.launcher import Broker

from shared.app import Stores
from shared.azure.connections import Connections
from shared.gate.receipts import percentile
from shared.topology import topology
from shared.waiting.release import POLL_SECONDS
from tests.benchmarks.document import write
from tests.benchmarks.gate_worker import Shift
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision

DOCUMENT = ROOT / "docs" / "appendix" / "gate.md"
#: Seconds until every process has started and its listener is attached.
WARM_UP = 12.0


@dataclass(frozen=True)
class Scenario:
    """One run: how many wait, how often it is opened, and what goes wrong."""

    name: str
    processes: int = 8
    waiters: int = 25
    rounds: int = 4
    spread: float = 3.0
    period: float = 10.0
    dropped: float = 0.3
    has_bus: bool = True
    #: Each opening is closed and opened again within one poll interval.
    pulses: bool = False
    warm_up: float = WARM_UP

    @property
    def epochs(self) -> int:
        """How many openings there are."""
        return self.rounds * (2 if self.pulses else 1)


@dataclass
class Report:
    """What the waiters of one run said."""

    scenario: Scenario
    late: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    epochs: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    early: int = 0
    opened: dict[int, float] = field(default_factory=dict)

    def hear(self, line: dict[str, object]) -> None:
        """Count one receipt."""
        if "waiter" not in line:
            return
        epoch = int(str(line["epoch"]))
        self.epochs[str(line["waiter"])].append(epoch)
        self.late[str(line["how"])].append(float(str(line["late"])))
        self.early += float(str(line["seen"])) < self.opened[epoch]

    def problems(self) -> list[str]:
        """Return every promise that was broken."""
        scenario, waiters = self.scenario, self.scenario.processes * self.scenario.waiters
        last = scenario.epochs
        whole = list(range(1, last + 1))
        found = [f"{len(self.epochs)} of {waiters} waiters were released"] * (len(self.epochs) != waiters)
        found += [f"{self.early} releases before their opening"] * bool(self.early)
        for waiter, epochs in self.epochs.items():
            # A pulse may be seen as its later opening only; without one each epoch is there.
            is_right = epochs[-1] == last and sorted(set(epochs)) == epochs if scenario.pulses else epochs == whole
            found += [f"waiter {waiter} was released for epochs {epochs}"] * (not is_right)
        return found


def run(scenario: Scenario) -> Report:
    """Run a scenario on a stack of its own."""
    with Azurite.start() as azurite, Broker.start() as broker:
        provision(azurite.connection_string, topology())
        if not scenario.has_bus:
            broker.kill()
        with Connections(azurite.connection_string, broker.connection_string) as connections:
            return _run(scenario, Stores(connections), azurite.connection_string, broker.connection_string)


def _run(scenario: Scenario, stores: Stores, storage: str, bus: str) -> Report:
    first = time.time() + scenario.warm_up
    planned = [first + number * scenario.period for number in range(scenario.rounds)]
    openings = [at for at in planned for _ in range(2 if scenario.pulses else 1)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.gate_worker", shift.text()], stdout=subprocess.PIPE, text=True
        )
        for shift in _shifts(scenario, storage, bus, openings)
    ]
    report = Report(scenario)
    for at in planned:
        time.sleep(max(0.0, at - time.time()))
        _open(scenario, stores, report)
        time.sleep(max(0.0, at + scenario.period - scenario.spread - 1 - time.time()))
        stores.gate_operator.close("bench", by="benchmark")
    for process in processes:
        said, _ = process.communicate(timeout=120)
        for line in said.splitlines():
            report.hear(json.loads(line))
    return report


def _shifts(scenario: Scenario, storage: str, bus: str, openings: list[float]) -> list[Shift]:
    return [
        Shift(storage, bus, "bench", scenario.waiters, tuple(openings), scenario.spread, scenario.dropped, seed)
        for seed in range(1, scenario.processes + 1)
    ]


def _open(scenario: Scenario, stores: Stores, report: Report) -> None:
    for is_again in range(2 if scenario.pulses else 1):
        if is_again:
            stores.gate_operator.close("bench", by="benchmark")
        began = datetime.now(UTC).timestamp()
        report.opened[stores.gate_operator.open("bench", by="benchmark").after.epoch] = began


SCENARIOS = (
    Scenario("broker up, 30 % of pushes dropped"),
    Scenario("broker down", has_bus=False, rounds=3),
    Scenario("open, close, open within one interval", pulses=True, rounds=3),
)


def main(_arguments: Sequence[str] = ()) -> int:
    """Run every scenario, print the table, and say what is broken."""
    reports = [run(scenario) for scenario in SCENARIOS]
    table = markdown(reports)
    sys.stdout.write(f"{table}\n")
    problems = [f"{report.scenario.name}: {one}" for report in reports for one in (*report.problems(), *slow(report))]
    sys.stdout.write("\n".join(problems))
    write(DOCUMENT, "gate", table)
    return bool(problems)


def slow(report: Report) -> list[str]:
    """Return which goal of lateness was missed: by push under 1 s, by poll under the interval and 1 s more."""
    goals = {"push": 1.0, "poll": POLL_SECONDS + 1.0}
    found = {how: percentile(sorted(report.late[how]), 99) for how in goals if report.late.get(how)}
    return [f"p99 by {how} is {late:.2f} s" for how, late in found.items() if late >= goals[how]]


def markdown(reports: list[Report]) -> str:
    """Return the table of the documentation."""
    lines = [
        "| run | waiters | seen by | releases | p50 | p99 | worst |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for report in reports:
        waiters = f"{report.scenario.processes * report.scenario.waiters}, {report.scenario.epochs} epochs"
        for how, found in sorted(report.late.items()):
            late = sorted(found)
            row = (len(late), *(f"{value:.3f} s" for value in (percentile(late, 50), percentile(late, 99), late[-1])))
            lines.append(f"| {report.scenario.name} | {waiters} | {how} | {' | '.join(map(str, row))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
