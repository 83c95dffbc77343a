"""What a room gets beside the floods of others, on the whole local stack: `make bench ARGS="--only fair"`.

Four of the 27 combinations that `tests/pipeline/test_simulated_turns.py` simulates: a job of one chunk, alone, and while half
of the rooms have a flood each. Then two floods by turns for a minute: with weights, and where every chunk of one fails.

Ratios of one run count; the seconds are this machine's. `ARGS="--only fair -- --short"` takes a small one of each, and writes
nothing: for a machine that is busy.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final

from shared.app import Stores
from shared.azure import Connections
from shared.ledger import FINISHED
from shared.publish import Publisher
from tests.benchmarks.dequeue_workload import Numbered, Timed
from tests.benchmarks.document import write
from tests.benchmarks.rooms import submit, take
from tests.waiting import LIMIT
from tools.local.docs import markdown
from tools.local.paths import ROOT
from tools.local.stack import StackOptions, running

DOCUMENT: Final = ROOT / "docs" / "appendix" / "dequeue.md"
#: The numbers of the transactions of a flood begin at its place times this. Those from `FAILS` on fail.
APART: Final = 1_000_000
FAILS: Final = 900 * APART
#: Seconds that floods last at least beside one job, and between two looks at the stamps.
LASTS, EVERY = 60.0, 0.2


@dataclass(frozen=True, slots=True)
class Combination:
    """Rooms, of which half have a flood, the tasks that are decided, and the seconds of a chunk."""

    rooms: int
    tasks: int
    seconds: float

    def __str__(self) -> str:
        """Return its row."""
        return f"{self.rooms} rooms, {self.tasks} tasks, {self.seconds:g} s a chunk"


COMBINATIONS: Final = (
    Combination(2, 24, 1.0),
    Combination(20, 24, 1.0),
    Combination(20, 24, 10.0),
    Combination(200, 24, 10.0),
)
SHORT: Final = (Combination(4, 16, 1.0),)
#: The least and the most of the work of a room of weight 3, in that of one of weight 1.
WEIGHTED: Final = (2.7, 3.3)
#: The least that others of a room get of which every chunk fails, in what they get beside one without failures.
UNHARMED: Final = 0.8


class Failing(Timed):
    """The workload that fails for some numbers, after its time."""

    name = "failing"

    def map(self, transaction: Numbered, number: int) -> int:
        """Write both times down, and fail."""
        done = super().map(transaction, number)
        if transaction.number >= FAILS:
            raise RuntimeError("this one always fails")
        return done


@dataclass(frozen=True, slots=True)
class _Fleet:
    """The stack of one measurement."""

    connections: Connections
    stores: Stores
    stamps: Path

    def flood(self, room: str, chunks: int, first: int) -> None:
        """Submit a job of so many chunks."""
        with Publisher.connect(self.connections, room) as publisher:
            submit(publisher, "flood", "failing", chunks, first)

    def take_all(self, rooms: Sequence[str], what: str, rounds: int) -> list[float]:
        """Submit one job of one chunk after the other, in the rooms by turns. Return the seconds until each end."""
        found = []
        for number, room in zip(range(rounds), itertools.cycle(rooms), strict=False):
            with Publisher.connect(self.connections, room) as publisher:
                found.append(take(self.stores, publisher, room, what, number, "failing"))
        return found

    def count_ended(self) -> Counter[int]:
        """Return the ended chunks of each flood, by its place."""
        lines = (line.split() for line in self.stamps.read_text().splitlines())
        return Counter(int(line[1]) // APART for line in lines if line[0] == "end")

    def warm(self, place: int, seconds: float) -> None:
        """Wait until a chunk of the flood at this place has ended, and until the window has found its size."""
        until = time.monotonic() + LIMIT
        while not self.count_ended()[place]:
            if time.monotonic() >= until:
                raise TimeoutError(f"no chunk of the flood at place {place} has ended within {LIMIT} s")
            time.sleep(EVERY)
        time.sleep(20 + 4 * seconds)


@contextmanager
def _fleet(rooms: Sequence[str], tasks: int, seconds: float, shares: str = "{}") -> Iterator[_Fleet]:
    with tempfile.TemporaryDirectory() as folder:
        stamps = Path(folder) / "stamps"
        stamps.touch()
        settings = {
            "SLUICE_ROOMS": ",".join(rooms),
            "SLUICE_CHUNK_ITEMS": "1",
            "SLUICE_WORKLOADS": "tests.benchmarks.fair:Failing",
            "DEQUEUE_STAMPS": str(stamps),
            "DEQUEUE_WORK": str(seconds),
        }
        with (
            running(StackOptions(instances=2, settings=settings)) as stack,
            Connections.parse(stack.settings) as connections,
        ):
            stores = Stores(connections)
            stores.rules.put(f"version: 1\nrules: [{{name: same, tasks: {tasks}}}]\nshares: {shares}\n")
            yield _Fleet(connections, stores, stamps)


def measure(one: Combination, rounds: int) -> tuple[list[float], list[float]]:
    """Return the seconds of jobs of one chunk, alone and beside the floods."""
    rooms = [f"room-{number:03}" for number in range(one.rooms)]
    floods, others = rooms[: one.rooms // 2], rooms[one.rooms // 2 :]
    with _fleet(rooms, one.tasks, one.seconds) as fleet:
        fleet.take_all(others, "warm", 1)
        alone = fleet.take_all(others, "alone", rounds)
        lasts = 2 * LASTS + rounds * 5 * (LASTS / 20 + one.seconds)
        for place, room in enumerate(floods, 1):
            fleet.flood(room, ceil(one.tasks * lasts / one.seconds / len(floods)), place * APART)
        fleet.warm(len(floods), one.seconds)
        beside = fleet.take_all(others, "beside", rounds)
        if all((job := fleet.stores.ledger.read(f"{room}~flood")) and job.state in FINISHED for room in floods):
            raise RuntimeError(f"the floods of {one} ended before the last of {rounds} jobs beside them")
    return alone, beside


def serve(tasks: int, seconds: float, lasts: float, *, shares: str = "{}", first: int = APART) -> Counter[int]:
    """Return how many chunks of two floods end in so many seconds: at place 1 or from `first` on, and at place 2."""
    with _fleet(("alpha", "beta"), tasks, seconds, shares) as fleet:
        chunks = ceil(tasks * (2 * LASTS + lasts) / seconds)
        fleet.flood("alpha", chunks, first)
        fleet.flood("beta", chunks, 2 * APART)
        fleet.warm(2, seconds)
        before = fleet.count_ended()
        time.sleep(lasts)
        return fleet.count_ended() - before


def main(arguments: Sequence[str] = ()) -> int:
    """Measure, put the tables into docs/appendix/dequeue.md, and end with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="fair", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="jobs of one chunk, alone and beside the floods")
    parser.add_argument("--lasts", type=float, default=60.0, help="seconds that two floods are compared")
    parser.add_argument("--short", action="store_true", help="a small one of each; the page stays")
    options = parser.parse_args(list(arguments))
    rounds, lasts, tasks = (2, 40.0, 8) if options.short else (options.rounds, options.lasts, 24)
    rows, is_good = [], True
    for one in SHORT if options.short else COMBINATIONS:
        alone, beside = measure(one, rounds)
        bound = 2 * statistics.median(alone) + one.seconds
        is_good &= _reaches(str(one), f"{max(beside):.1f} s", is_reached=max(beside) <= bound)
        found = (statistics.median(alone), statistics.median(beside), max(beside), bound)
        rows.append(_say((str(one), *(f"{seconds:.1f} s" for seconds in found))))
    waits = markdown(("a job of one chunk", "alone", "beside floods: median", "worst", "goal"), rows)
    weighted = serve(tasks, 1.0, lasts, shares="{rooms: {alpha: {weight: 3}}}")
    healthy = serve(tasks, 1.0, lasts)
    harmed = serve(tasks, 1.0, lasts, first=FAILS)
    ratio, kept = weighted[1] / max(1, weighted[2]), harmed[2] / max(1, healthy[2])
    is_good &= _reaches("weights", f"{ratio:.2f}", is_reached=WEIGHTED[0] <= ratio <= WEIGHTED[1])
    is_good &= _reaches("beside a room that fails", f"{kept:.0%}", is_reached=kept >= UNHARMED)
    shares = markdown(
        (f"two floods, {tasks} tasks, 1 s a chunk, {lasts:g} s", "measured", "goal"),
        [
            _say(("work of weight 3 in that of weight 1", f"{ratio:.2f}", f"{WEIGHTED[0]} to {WEIGHTED[1]}")),
            _say(
                (
                    "work of a room beside one that always fails, in that beside a healthy one",
                    f"{kept:.0%}",
                    f"{UNHARMED:.0%}",
                )
            ),
        ],
    )
    if not options.short:
        write(DOCUMENT, "fair", f"{waits}\n\n{shares}")
    return int(not is_good)


def _reaches(what: str, measured: str, *, is_reached: bool) -> bool:
    if not is_reached:
        print(f"missed its goal: {what}: {measured}", flush=True)  # noqa: T201 - commands print
    return is_reached


def _say(row: tuple[Any, ...]) -> tuple[Any, ...]:
    print(" | ".join(row), flush=True)  # noqa: T201 - commands print
    return row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
