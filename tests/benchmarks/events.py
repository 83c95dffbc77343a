"""How soon an idle app begins its first chunk after an event, at the values that are deployed; docs/appendix/performance.md.

`make bench ARGS="--only events"` takes about half an hour: each stack is idle for more than two minutes before its next
event. Many stacks run side by side, and their events follow each other by seconds. A trial takes two minutes:
`ARGS="--only events -- --openings 2 --idle 20 --stacks 2 --pairs 1 --triggers 1"`.
"""

import argparse
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from threading import Barrier, BrokenBarrierError

from shared.gate.receipts import percentile
from shared.usage import MONTH, Installation, load, polling_seconds
from tests.benchmarks.document import write
from tests.benchmarks.events_stack import DeployedStack, Took, deployed
from tools.local.paths import ROOT

DOCUMENT = ROOT / "docs" / "appendix" / "performance.md"
HOST_JSON = json.loads((ROOT / "host.json").read_text())
PUSH, TRIGGER = {"SLUICE_DEQUEUE": "push"}, {"SLUICE_DEQUEUE": "trigger"}
OPENING, PLANNED, HINTED, COMMAND = "opening", "planned", "hinted", "command"
#: Seconds of an ordinary goal: from the event to the begin of the first chunk.
P50, P99 = 0.5, 2.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Some stacks of one kind."""

    settings: dict[str, str]
    stacks: int
    instances: int = 1
    #: Seconds that an event takes at most, until its job has ended.
    takes: float = 8.0

    @property
    def poll(self) -> float:
        """The interval in seconds at which an idle queue is to be polled."""
        return polling_seconds(HOST_JSON, self.settings)


@dataclass(frozen=True, slots=True)
class Way:
    """One way in which an event reaches an idle app, and its goals in seconds."""

    name: str
    fleet: str
    event: str
    p50: float | None = None
    p99: float | None = None

    def missed(self, begins: Sequence[float]) -> list[str]:
        """Return each goal that was missed."""
        goals = ((percent, goal) for percent, goal in ((50, self.p50), (99, self.p99)) if goal is not None)
        found = [(percent, goal, percentile(sorted(begins), percent)) for percent, goal in goals if begins]
        return [
            f"{self.name}: p{percent} {one:.3f} s, {goal:g} s is the goal" for percent, goal, one in found if one > goal
        ]


@dataclass
class Found:
    """Everything that was measured."""

    took: dict[str, list[Took]] = field(default_factory=lambda: defaultdict(list))
    #: Of the stacks with one instance: seconds of the host's start, and of the first opening of its process.
    starts: list[tuple[float, float]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def fleets(options: argparse.Namespace) -> dict[str, Fleet]:
    """Return what runs side by side."""
    return {
        "push": Fleet(PUSH, options.stacks),
        "two": Fleet(PUSH, options.pairs, instances=2),
        "trigger": Fleet(TRIGGER, options.triggers, takes=2.5 * polling_seconds(HOST_JSON, TRIGGER)),
    }


def ways() -> list[Way]:
    """Return everything that is measured, each with what is promised of it."""
    return [
        Way("`gate open`, push", "push", OPENING, P50, P99),
        Way("`gate open`, push, two instances", "two", OPENING, P50, P99),
        Way("`gate open --at`, push", "push", PLANNED),
        Way("a drop with a hint by a running publisher, push", "push", HINTED, P50, P99),
        Way("a drop with a hint by a new publisher, push", "push", COMMAND),
        Way("`gate open`, trigger", "trigger", OPENING),
    ]


def main(arguments: Sequence[str] = ()) -> int:
    """Measure every way, put the table into docs/appendix/performance.md, and say which goal is missed."""
    options = _options(arguments)
    known, wanted, found = fleets(options), ways(), Found()
    plans = [
        (known[name], plan)
        for name in known
        for plan in _deal(known[name], [w for w in wanted if w.fleet == name], options)
    ]
    barrier, numbers = Barrier(len(plans)), count()
    with ThreadPoolExecutor(len(plans)) as pool:
        runs = [
            pool.submit(_Run(fleet, plan, next(numbers) / len(plans), options, found, barrier)) for fleet, plan in plans
        ]
        # The failure of one stack breaks the barrier for the others.
        for error in sorted(
            filter(None, (run.exception() for run in runs)), key=lambda one: isinstance(one, BrokenBarrierError)
        ):
            raise error
    table = markdown([way for way in wanted if found.took[way.name]], found, options)
    missed = [problem for way in wanted for problem in way.missed([one.begin for one in found.took[way.name]])]
    sys.stdout.write("\n".join([table, *found.problems, *missed, ""]))
    write(DOCUMENT, "events", table)
    return bool(found.problems or missed)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--openings", type=int, default=30, help="events of each way")
    parser.add_argument("--idle", type=float, default=130.0, help="seconds for which a stack is idle before an event")
    parser.add_argument("--stacks", type=int, default=12, help="stacks by push; each takes 0.3 GB")
    parser.add_argument("--pairs", type=int, default=3, help="stacks by push with two instances; 0 leaves them out")
    parser.add_argument("--triggers", type=int, default=6, help="stacks by trigger; 0 leaves them out")
    return parser.parse_known_args(arguments)[0]


def _deal(fleet: Fleet, wanted: Sequence[Way], options: argparse.Namespace) -> list[list[Way]]:
    """Return the events of each stack of a fleet, in an order by chance."""
    events = [way for way in wanted for _ in range(options.openings)]
    random.Random(3).shuffle(events)
    return [events[number :: fleet.stacks] for number in range(fleet.stacks)]


@dataclass(frozen=True, slots=True)
class _Run:
    """One stack from its start to its last event."""

    fleet: Fleet
    plan: Sequence[Way]
    #: Its place among the stacks, from 0 to 1.
    place: float
    options: argparse.Namespace
    found: Found
    barrier: Barrier

    def __call__(self) -> None:
        """Run it. A stack that fails does not keep the others waiting."""
        try:
            # Not in the second in which all other stacks tick.
            tick = {"SLUICE_TICK_SCHEDULE": f"{int(self.place * 60)} * * * * *"}
            with deployed({**self.fleet.settings, **tick}, instances=self.fleet.instances) as stack:
                self._warm(stack)
                held = stack.hold(sum(way.event in {OPENING, PLANNED} for way in self.plan))
                self.barrier.wait()
                self._measure(stack, held)
        except BaseException:
            self.barrier.abort()
            raise

    def _warm(self, stack: DeployedStack) -> None:
        if stack.intervals() != {self.fleet.poll}:
            self.found.problems.append(f"an idle queue is polled each {stack.intervals()} s, not {self.fleet.poll:g} s")
        # Each instance does everything once before it is measured.
        first, *_ = [stack.open(number) for number in stack.hold(4 * self.fleet.instances - 3)]
        stack.drop_again()
        if self.fleet.settings is PUSH and self.fleet.instances == 1:
            self.found.starts.append((stack.started, first.begin))

    def _measure(self, stack: DeployedStack, held: list[int]) -> None:
        dice, began = random.Random(self.place), time.time()
        period = self.options.idle + self.fleet.takes
        for turn, way in enumerate(self.plan):
            # In whole seconds for a planned one; otherwise anywhere between two polls.
            at = max(began + (turn + self.place) * period, time.time()) + self.options.idle
            at = at // 1 if way.event == PLANNED else at + dice.uniform(0, min(self.fleet.poll, period / 20))
            act = self._prepare(stack, way, held, at)
            time.sleep(max(0.0, at - time.time()))
            try:
                self.found.took[way.name].append(act())
            except TimeoutError as error:
                self.found.problems.append(f"{way.name}: {error}")

    @staticmethod
    def _prepare(stack: DeployedStack, way: Way, held: list[int], at: float) -> Callable[[], Took]:
        if way.event == COMMAND:
            return stack.drop
        if way.event == HINTED:
            return stack.drop_again
        number = held.pop()
        if way.event == PLANNED:
            stack.plan(number, at)
            return lambda: stack.follow(number, at)
        return lambda: stack.open(number)


def markdown(wanted: Sequence[Way], found: Found, options: argparse.Namespace) -> str:
    """Return the table, and what a start from zero and two ready instances add."""
    events = f"{options.openings} events of each kind, each after {options.idle:g} s or more without one"
    lines = [
        f"{events}; jobs of one transaction. Seconds from the event:",
        "",
        "| event | begin of the first chunk: p50 | p99 | worst | end of the job: p50 | p99 | by receipts, p50 | goal |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_row(way, found.took[way.name]) for way in wanted]
    return "\n".join([*lines, "", *_beside(found)])


def _row(way: Way, took: Sequence[Took]) -> str:
    begins, ends = sorted(one.begin for one in took), sorted(one.end for one in took)
    told = sorted(one.told for one in took if one.told is not None)
    figures = (percentile(begins, 50), percentile(begins, 99), begins[-1], percentile(ends, 50), percentile(ends, 99))
    goals = " and ".join(
        f"p{percent} <= {goal:g}" for percent, goal in ((50, way.p50), (99, way.p99)) if goal is not None
    )
    reached = ("no" if way.missed(begins) else "yes") if goals else ""
    receipts = f"{percentile(told, 50):.3f}" if told else ""
    cells = [way.name, *(f"{one:.3f}" for one in figures), receipts, f"{goals}: {reached}" if goals else ""]
    return f"| {' | '.join(cells)} |"


def _beside(found: Found) -> Iterator[str]:
    commands = sorted(
        one.command for name, took in found.took.items() if "drop" not in name for one in took if one.command
    )
    if commands:
        yield f"- The opening command takes {percentile(commands, 50):.1f} s, most of it to connect to the bus before it opens."
    if found.starts:
        started, first = (sorted(one) for one in zip(*found.starts, strict=True))
        yield (
            f"- From zero: this local host starts in {percentile(started, 50):.1f} s, and the first opening of a new process "
            f"took {percentile(first, 50):.1f} s (p50 of {len(first)}). A start on Azure is not measured."
        )
    memory, gigabyte = Installation().instance_gb, load().functions.ready_gb_second
    month = Decimal(MONTH.total_seconds()) * memory * gigabyte
    yield (
        f"- An always-ready instance of {memory} GB costs {month:.2f} {load().currency} a month: two, one each for "
        f"`release_gate` and `drain_work`, cost {2 * month:.2f}."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
