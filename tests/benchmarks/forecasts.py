"""The forecast of an opening against what happened, of few jobs and of many, time after time on the local stack.

    make bench ARGS="--only forecasts"      (writes its table into docs/appendix/console.md)

Speeds are known: a large job and openings of three and of a hundred jobs ran before. `-- --rounds N` and `-- --jobs N` make it shorter.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import count

from shared.app import Stores
from shared.azure import Connections
from shared.azure.meter import tally_requests
from shared.ledger import Job, JobState, Wanted
from shared.operating import Forecast
from shared.publish import Publisher
from shared.usage import bill_of, load
from tests.benchmarks import document
from tests.benchmarks.console import DOCUMENT
from tools.local.docs import markdown
from tools.local.stack import StackOptions, running

FEW, MANY, ROUNDS = 3, 3_000, 10
WARM, LARGE, ITEMS, TASKS = 100, 120_000, 40, 8
#: The goals: seconds within this factor, the price within this share.
FACTOR, NEAR = 1.5, Decimal("0.1")
EVERY, PATIENCE = 0.5, 3_600
READS = ("Get", "List", "Query", "Peek")
HEAD = ("jobs", "openings", "jobs and transactions", "writes of a forecast", "seconds", "USD", "judged")


@dataclass(frozen=True, slots=True)
class Opening:
    """A forecast, and what happened."""

    found: Forecast
    writes: int
    rows: Sequence[Job]
    seconds: float

    @property
    def is_exact(self) -> bool:
        """Return whether jobs and transactions are those that ran."""
        ran = (len(self.rows), sum(job.totals.accepted.items for job in self.rows))
        return (len(self.found.jobs), self.found.items) == ran

    @property
    def pace(self) -> float:
        """Return the forecast seconds for each that passed. 0: none were forecast."""
        return (self.found.seconds or 0.0) / self.seconds

    @property
    def price(self) -> Decimal:
        """Return the forecast amount for each that was billed."""
        return self.found.amount / sum((bill_of(job, load()).total for job in self.rows), Decimal())

    @property
    def is_met(self) -> bool:
        """Return whether all goals were met."""
        is_in_time = 1 / FACTOR <= self.pace <= FACTOR
        return self.is_exact and not self.writes and is_in_time and abs(self.price - 1) <= NEAR


class Openings:
    """Gates of one stack, one for each opening."""

    def __init__(self, connections: Connections) -> None:
        self.connections, self.stores = connections, Stores(connections)
        self._numbers = count(1)

    def open(self, number: int) -> Opening:
        """Hold so many jobs behind a new gate, forecast its opening, open it, and wait until all have ended."""
        gate = f"gate-{next(self._numbers):03}"
        with Publisher.connect(self.connections) as publisher:
            for one in range(number):
                self._submit(publisher, f"{gate}-{one:04}", ITEMS, gate)
        self._wait(lambda: self.stores.held.summary(gate).count == number)
        with tally_requests() as tally:
            found = self.stores.gate_forecaster.forecast(gate, load(), self.stores.clock.now())
        writes = sum(n for (kind, _), n in tally.counts().items() if not kind.operation.startswith(READS))
        opened = self.stores.clock.now()
        self.stores.gate_operator.open(gate, by="bench")
        self._wait(lambda: self._count(gate) == number)
        rows = [job for one in range(number) if (job := self.stores.ledger.read(f"{gate}-{one:04}")) is not None]
        ended = max(job.finished_at for job in rows if job.finished_at)
        return Opening(found, writes, rows, (ended - opened).total_seconds())

    def run_large(self) -> None:
        """Run a job from which the speed of the workload is known."""
        with Publisher.connect(self.connections) as publisher:
            self._submit(publisher, "large", LARGE, None)
        self._wait(lambda: (job := self.stores.ledger.read("large")) is not None and job.state is JobState.COMPLETE)

    def _submit(self, publisher: Publisher, job: str, items: int, gate: str | None) -> None:
        some = ({"units": one % 97} for one in range(items))
        publisher.submit(job=job, workload="sales", transactions=some, sums=("units",), gate=gate)

    def _count(self, gate: str) -> int:
        """Return the jobs of a gate that are complete."""
        found, after = 0, ""
        while True:
            page = self.stores.job_list.page(Wanted(gate=gate, state=JobState.COMPLETE), 1_000, after)
            found += len(page.jobs)
            if page.after is None:
                return found
            after = page.after

    def _wait(self, is_so) -> None:
        end = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() >= end:
                raise TimeoutError(f"after {PATIENCE} s it was not so")
            time.sleep(EVERY)


@contextmanager
def openings() -> Iterator[Openings]:
    """Run the stack, with known speeds."""
    with running(StackOptions(instances=2)) as stack, Connections.parse(stack.settings) as connections:
        made = Openings(connections)
        made.stores.rules.put(f"version: 1\nrules: [{{name: same, tasks: {TASKS}}}]\n")
        made.run_large()
        made.open(FEW)
        made.open(WARM)
        yield made


def main(arguments: Sequence[str] = ()) -> int:
    """Open gates, write the table; 1 when a goal was missed."""
    parser = argparse.ArgumentParser(prog="forecasts", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="openings of each size")
    parser.add_argument("--many-rounds", type=int, default=None, help="openings of many jobs, if fewer")
    parser.add_argument("--jobs", type=int, default=MANY, help="jobs of an opening of many")
    options = parser.parse_args(arguments)
    rounds = {FEW: options.rounds, options.jobs: options.many_rounds or options.rounds}
    with openings() as made:
        found = {number: [_print(made.open(number)) for _ in range(times)] for number, times in rounds.items()}
    table = markdown(HEAD, [_row(number, some) for number, some in found.items()])
    document.write(DOCUMENT, "forecasts", table)
    print(table)  # noqa: T201 - commands print
    return int(not all(one.is_met for some in found.values() for one in some))


def _print(one: Opening) -> Opening:
    line = f"{one.found.seconds} s forecast, {one.seconds:.1f} s; USD x{one.price:.3f}; {one.writes} writes"
    print(f"{len(one.rows)} jobs: {line}", flush=True)  # noqa: T201 - commands print
    return one


def _row(number: int, some: Sequence[Opening]) -> tuple[str, ...]:
    paces, prices = [one.pace for one in some], [one.price for one in some]
    return (
        f"{number:,}",
        f"{len(some)}",
        "exact" if all(one.is_exact for one in some) else "NOT exact",
        f"{max(one.writes for one in some)}",
        f"{min(paces):.2f}x to {max(paces):.2f}x of {min(one.seconds for one in some):.1f} s to {max(one.seconds for one in some):.1f} s",
        f"{min(prices):.3f}x to {max(prices):.3f}x",
        "met" if all(one.is_met for one in some) else "missed",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
