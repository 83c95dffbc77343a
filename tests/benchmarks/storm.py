"""A minute of 503 from all of storage under the running app: how far it slows down, and when it is back.

    python -m tests.benchmarks.storm          (part of `make bench`; writes its table into docs/appendix/concurrency.md)

Two instances of the local host work through a proxy that refuses everything for a minute. What the processes tell each
other is read past the proxy, once a second.
"""

import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from shared.app import Stores
from tests.benchmarks import document
from tests.chaos.invariants import breaches
from tests.chaos.jobs import submit, wait_finished
from tests.chaos.stack import running, wait_until

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "appendix" / "concurrency.md"
#: Seconds of the storm, of the small one while idle, and for which is looked whether anything grows then.
STORM, GUST, IDLE = 60, 8, 60
#: Transactions of a job, and jobs that are open at any time.
ITEMS, OPEN = 10_000, 2
PATIENCE = 600
#: Seconds after the storm within which everything is to be back at the full rate.
GOAL = 60


class Feeder:
    """Keeps jobs coming, in a thread, until it is told to stop."""

    def __init__(self, connections):
        self._connections, self.expected = connections, []
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run, name="storm-feeder")

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        for number in count():
            if self._stop.is_set():
                return
            self.expected.append(submit(self._connections, f"storm-{number}", number, ITEMS))
            wait_finished(self._connections, self.expected[: number + 2 - OPEN], PATIENCE)


def main(_arguments: Sequence[str] = ()) -> int:
    """Raise the storm, print the table, write it into the page; 1 when something was parked or did not come back."""
    with tempfile.TemporaryDirectory(prefix="sluice-storm-") as folder, running(folder, instances=2) as stack:
        table = Stores(stack.connections).fleet
        with Feeder(stack.connections) as feeder:
            wait_until(lambda: table.read().workers, PATIENCE, lambda: "nobody works")
            before = _rate(table)
            ended = _storm(stack, STORM)
            least = wait_until(lambda: _slowed(table), PATIENCE, lambda: "nobody slowed down")
            back = _back(table, ended)
            after = _rate(table)
        wait_finished(stack.connections, feeder.expected, PATIENCE)
        wait_until(lambda: not stack.depths(), PATIENCE, lambda: "queues are not empty")
        idle = _idle(stack, table)
        found = list(breaches(stack, feeder.expected))
        refused = stack.proxy.refused
    is_good = not found and back <= GOAL and idle[1] <= idle[0]
    rows = [
        ("storage refused everything", f"{STORM} s, {refused:,} requests"),
        ("parked, lost or counted twice", "; ".join(found) or "nothing"),
        ("chunks a second before, and after (jobs are sent as others end)", f"{before:.0f}, {after:.0f}"),
        ("least share of the full rate that a process kept to", f"{least:.0%}"),
        ("every process and the decision at the full rate again", f"{back:.0f} s after the storm (goal: {GOAL} s)"),
        (f"share after {GUST} s of 503 while idle, and {IDLE} s later", f"{idle[0]:.0%}, {idle[1]:.0%}"),
    ]
    lines = [("what", "found"), ("---", "---"), *rows]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    print(text)  # noqa: T201 - commands print
    document.write(DOCUMENT, "storm", text)
    return int(not is_good)


def _storm(stack, seconds):
    stack.proxy.is_busy = True
    time.sleep(seconds)
    stack.proxy.is_busy = False
    return time.monotonic()


def _shares(fleet):
    """Return the share of each process that works and of each resource."""
    return [*(worker.share for worker in fleet.workers), *(one.share for one in fleet.governors.values())]


def _slowed(table):
    """Return the least share that anybody tells, once somebody does."""
    least = min(_shares(table.read()), default=1.0)
    return least if least < 1 else 0


def _back(table, ended):
    """Return how many seconds after the storm everybody tells of the full rate, and the decision is not held back."""

    def is_full():
        fleet = table.read()
        decision = fleet.decision
        is_free = decision is not None and decision.terms["governor"] == fleet.rules.most
        return is_free and min(_shares(fleet)) >= 1

    wait_until(is_full, PATIENCE, lambda: f"still at {_shares(table.read())}")
    return time.monotonic() - ended


def _rate(table):
    """Return the chunks that are done in a second, by what the processes tell over half a minute."""
    began, done = time.monotonic(), _done(table)
    time.sleep(30)
    return (_done(table) - done) / (time.monotonic() - began)


def _done(table):
    return sum(worker.done for worker in table.read().workers)


def _idle(stack, table):
    """Push back while nothing is there to do, and return the share then and a while later."""
    _storm(stack, GUST)
    wait_until(lambda: _share(table) < 1, PATIENCE, lambda: "nobody told of the push-back")
    then = _share(table)
    time.sleep(IDLE)
    return then, _share(table)


def _share(table):
    return min((one.share for one in table.read().governors.values()), default=1.0)


if __name__ == "__main__":
    raise SystemExit(main())
