"""How soon the work of a killed process goes on elsewhere, stage by stage, at the locks that are deployed.

    python -m tests.benchmarks.recovery          (part of `make bench`; writes its table into docs/appendix/faults.md)

Two instances of the local host work. One that has something of the stage in hand is ended by SIGKILL. Its tick is the
deployed one, so nothing here depends on it. Locks cannot be shortened: a figure would say nothing about an installation.
"""

import argparse
import os
import platform
import signal
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shared.app import Stores
from tests.benchmarks import document
from tests.benchmarks.recovery_orders import benched_orders
from tests.benchmarks.recovery_traps import TRAPS, Traps
from tests.chaos.invariants import breaches
from tests.chaos.jobs import submit, wait_finished
from tests.chaos.stack import running, wait_until

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "appendix" / "faults.md"
#: Jobs of one kill, and transactions of each.
JOBS, ITEMS = 6, 1_000
PATIENCE = 900
#: Seconds from the kill to the end of all jobs: the worst of a stage, and the median of its work going on.
WORST, MEDIAN = 60, 20
#: The gate of the held jobs.
GATE = "recovery"
#: Options of the stand-ins that shorten what a killed process holds.
SHORTENED = ("--lock-seconds", "--message-lease")


@dataclass(frozen=True)
class Stage:
    """A row of the table."""

    #: What the killed process has in hand.
    what: str
    trap: str
    settings: dict[str, str] = field(default_factory=dict)
    is_hinted: bool = False
    is_held: bool = False
    is_of_order: bool = False
    #: The rules in force, if they are not the built-in ones.
    rules: str | None = None
    #: Every instance is killed, three times. The seconds are those after the last time.
    is_of_all: bool = False


BY_TRIGGER = {"SLUICE_DEQUEUE": "trigger"}
#: All chunks of a room with a limit go through the feeder. Without one, those of six jobs are put at once.
LIMITED = 'version: 1\nrules: [{name: same, tasks: 16}]\nshares: {rooms: {"": {most: 20}}}\n'
STAGES = {
    # The host's trigger mostly takes a submission before its hint is there.
    "hint": Stage(
        "a submission, by a hint", "hint", {"AzureWebJobs.accept_submission.Disabled": "true"}, is_hinted=True
    ),
    "trigger": Stage("a submission, by the host's trigger", "trigger"),
    "work": Stage("a work message and its slot, by push", "work"),
    "work-trigger": Stage("a work message and its slot, by trigger", "work", BY_TRIGGER),
    "settle": Stage("a batch of results", "settle"),
    "all": Stage("a batch of results, in all instances, three times", "settle", is_of_all=True),
    "finish": Stage("the finish of a job", "finish"),
    "release": Stage("a slice of a gate's held jobs", "release", is_held=True),
    "feed": Stage("chunks that wait for their turn, in the feeder", "feed", rules=LIMITED),
    "order": Stage("an order over HTTP, stored, its command unsent", "order", is_of_order=True),
    "sell": Stage("commands to the seats of a conference", "sell", is_of_order=True),
    "hear": Stage("answers of seats to orders", "hear", is_of_order=True),
    "project": Stage("events for the views of orders", "project", is_of_order=True),
}


@dataclass(frozen=True)
class Kill:
    """What came of one kill, in seconds after it."""

    #: Until another process began what the killed one had in hand.
    again: float
    #: Until all jobs had ended.
    ended: float


class Bench:
    """One stack with two instances, and the kills of one stage."""

    def __init__(self, stack, folder, stage):
        self.stack, self._stage, self._traps = stack, stage, Traps(folder)
        self.expected = []

    def kill(self, number):
        """Submit jobs, end a process that has something of the stage in hand, and wait until all jobs have ended."""
        name = f"{self._stage.trap}-{number}"
        if not self._stage.is_held:
            self._traps.arm(self._stage.trap)
        some = [self._submit(f"{name}-{one}", number * JOBS + one) for one in range(JOBS)]
        self.expected += some
        if self._stage.is_held:
            ledger = Stores(self.stack.connections).ledger
            wait_until(lambda: all(ledger.read(one.job) for one in some), PATIENCE, lambda: "not accepted")
            self._traps.arm(self._stage.trap)
            self._gate("open")
        what, pid = wait_until(lambda: self._caught(number), PATIENCE, lambda: f"none has {self._stage.what} in hand")
        os.killpg(os.getpgid(int(pid)), signal.SIGKILL)
        at = time.time()
        wait_finished(self.stack.connections, some, PATIENCE)
        ended = time.time() - at
        if self._stage.is_held:
            self._gate("close")
        again = [float(words[4]) for words in self._notes("went") if words[2] == what and float(words[4]) >= at]
        return Kill(min(again, default=at + ended) - at, ended)

    def kill_all(self, times):
        """End every instance so often while one has something of the stage in hand. Return the seconds to the end."""
        some = [self._submit(f"all-{one}", one) for one in range(JOBS)]
        self.expected += some
        for number in range(times):
            self._traps.arm(self._stage.trap)
            wait_until(lambda at=number: self._caught(at), PATIENCE, lambda: f"none has {self._stage.what} in hand")
            for pid in self.stack.host.instance_pids().values():
                os.killpg(os.getpgid(pid), signal.SIGKILL)
        at = time.time()
        wait_finished(self.stack.connections, some, PATIENCE)
        return time.time() - at

    def _submit(self, job, seed):
        connections = self.stack.connections
        gate = GATE if self._stage.is_held else None
        return submit(connections, job, seed, ITEMS, gate, is_hinted=self._stage.is_hinted)

    def _gate(self, act):
        with Stores(self.stack.connections) as stores:
            getattr(stores.gate_operator, act)(GATE, by="bench")

    def _notes(self, kind):
        return [words for words in self.stack.notes() if words[:2] == [kind, self._stage.trap]]

    def _caught(self, number):
        found = self._notes("caught")[number:]
        return found[0][2:4] if found else None


@contextmanager
def benched(stage):
    """Start a stack at the deployed locks and yield the bench of a stage."""
    with tempfile.TemporaryDirectory(prefix="sluice-recovery-") as folder:
        traps = Path(folder) / "traps"
        traps.mkdir()
        more = {"SLUICE_WORKLOADS": "tests.benchmarks.recovery_traps:Trapped", TRAPS: str(traps), **stage.settings}
        options = {"instances": 2, "tick": "0 * * * * *", "rules": stage.rules}
        with running(folder, **options, is_deployed=True, more=more) as stack:
            yield Bench(stack, traps, stage)


def measure(stage, kills):
    """Kill so many times and return the outcome of each, and all that is wrong at the end."""
    if stage.is_of_order:
        with benched_orders(stage.trap) as bench:
            return [Kill(*bench.kill(number)) for number in range(kills)], list(bench.breaches())
    with benched(stage) as bench:
        if stage.is_of_all:
            # There is no other process that goes on.
            seen = [Kill(0.0, bench.kill_all(times=3))]
        else:
            seen = [bench.kill(number) for number in range(kills)]
        found = list(breaches(bench.stack, bench.expected))
    return seen, found


def main(arguments: Sequence[str] = ()) -> int:
    """Measure the stages, print the table and write it into the page. Return 1 if a goal was missed."""
    options = _parser().parse_args(list(arguments))
    if any(getattr(options, name.strip("-").replace("-", "_")) is not None for name in SHORTENED):
        raise SystemExit(
            f"{' and '.join(SHORTENED)} are refused here: the table states what a kill costs at the deployed locks, "
            "which are in shared/topology.py; leave the option out"
        )
    rows, is_good = [], True
    for name in options.stage or STAGES:
        began, (seen, found) = time.monotonic(), measure(STAGES[name], options.kills)
        again, ended = [one.again for one in seen], [one.ended for one in seen]
        missed = [*found, *_list_missed(again, ended)]
        is_good &= not missed
        elsewhere = "" if STAGES[name].is_of_all else _said(again)
        rows.append((STAGES[name].what, len(seen), elsewhere, _said(ended), "; ".join(found[:3]) or "exact"))
        print(f"{' | '.join(map(str, rows[-1]))} ({time.monotonic() - began:.0f} s)", flush=True)  # noqa: T201 - commands print
        for one in missed:
            print(f"missed its goal: {name}: {one}", flush=True)  # noqa: T201 - commands print
    head = (
        "the killed process had in hand",
        "kills",
        "it goes on elsewhere: median, worst",
        "all jobs ended",
        "outputs",
    )
    table = "\n".join([_line(head), _line(["---"] * len(head)), *_merged([_line(row) for row in rows])])
    said = f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores."
    print(f"{table}\n\n{said}")  # noqa: T201 - commands print
    if not options.dry:
        document.write(DOCUMENT, "recovery", f"{table}\n\n{said}")
    return int(not is_good)


def _list_missed(again, ended):
    if (middle := statistics.median(again)) > MEDIAN:
        yield f"it went on elsewhere after {middle:.1f} s in the median, the goal is {MEDIAN} s"
    if (worst := max(ended)) > WORST:
        yield f"all jobs had ended after {worst:.1f} s, the goal is {WORST} s"


def _line(cells):
    return f"| {' | '.join(map(str, cells))} |"


def _merged(rows):
    """Return these rows and those of the page that were not measured now, in the order of the stages."""
    known = {line.split(" | ")[0]: line for line in [*document.read(DOCUMENT, "recovery").splitlines(), *rows]}
    return [known[one] for one in (f"| {stage.what}" for stage in STAGES.values()) if one in known]


def _said(seconds):
    return f"{statistics.median(seconds):.1f} s, {max(seconds):.1f} s"


def _parser():
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.recovery", description=__doc__)
    parser.add_argument(
        "--stage", action="append", choices=STAGES, help="measure these alone; the page keeps the rows of the others"
    )
    parser.add_argument("--kills", type=int, default=10, help="of each stage")
    parser.add_argument("--dry", action="store_true", help="do not write the page")
    for name in SHORTENED:
        parser.add_argument(name, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    import sys

    raise SystemExit(main(sys.argv[1:]))
