"""What the ids cost, beside Twist's generator and a bare locked counter: `python -m tests.benchmarks.ids`.

Prints the tables, writes .stack/bench/ids.json, and puts the tables into docs/appendix/ids.md. Fails when a goal is missed.
"""

import json
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from shared.azure import BlobStore, connect
from shared.ids import RangeGenerator, Sizing, read_sequence
from tests.benchmarks.document import write
from tests.benchmarks.ids_paced import Cost, Paced, cost_of
from tests.ids.losing_transport import LosingTransport, counted
from tests.ids.memory_store import MemoryStore
from tests.ids.seed_generator import SeedGenerator, SeedStore
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT

OUTPUT = Path(".stack/bench/ids.json")
DOCUMENT = ROOT / "docs" / "appendix" / "ids.md"
SECONDS = 15.0
RUNS = [
    Paced("Twist", 1, SECONDS),
    Paced("ours without prefetch", 1, SECONDS),
    Paced("ours", 1, SECONDS),
    Paced("Twist", 4, SECONDS),
    Paced("ours", 4, SECONDS),
    Paced("Twist", 8, SECONDS),
    Paced("ours without prefetch", 8, SECONDS),
    Paced("ours", 8, SECONDS * 2),
]


class LockedCounter:
    """The least that a thread-safe counter can do."""

    def __init__(self) -> None:
        self._value, self._lock = 0, threading.Lock()

    def next_id(self) -> int:
        """Return the next number."""
        with self._lock:
            self._value += 1
            return self._value


def rate_of(call: Callable[[], object], calls: int, ids_per_call: int = 1) -> float:
    """Return ids a second in one thread: the median of seven rounds after one to warm up."""
    rates = []
    for _ in range(8):
        before = time.perf_counter()
        for _ in range(calls):
            call()
        rates.append(calls * ids_per_call / (time.perf_counter() - before))
    return statistics.median(rates[1:])


def rates() -> dict[str, float]:
    """Return what one thread draws from memory: what the generators themselves cost."""
    seed_store = MemoryStore()
    seed_store.try_write(b"0", None)
    seed = SeedGenerator(SeedStore(seed_store), 1000)
    with RangeGenerator(MemoryStore()) as singles, RangeGenerator(MemoryStore()) as blocks:
        return {
            "locked": rate_of(LockedCounter().next_id, 1_000_000),
            "Twist": rate_of(seed.next_id, 1_000_000),
            "next_id": rate_of(singles.next_id, 2_000_000),
            "blocks": rate_of(lambda: blocks.next_ids(1000), 50_000, 1000),
            "listed": rate_of(lambda: list(blocks.next_ids(1000)), 5_000, 1000),
        }


def requests_per_range_alone(connection: str, ranges: int = 1000, size: int = 1000) -> float:
    """Return all requests of one process, first use and close included, for each of its ranges."""
    tally = OUTPUT.parent / f"tally-{uuid.uuid4().hex[:8]}"
    with connect(connection, f"alone-{uuid.uuid4().hex[:8]}", transport=LosingTransport(tally)) as client:
        store = BlobStore(client, "orders")
        with RangeGenerator(store, sizing=Sizing(first=size, range_size=size, largest=size)) as generator:
            for _ in range(ranges * size):
                generator.next_id()
        requests = counted(tally)["requests"]
        page = read_sequence(store)
    tally.unlink()
    assert page is not None
    return requests / (page.writes - 2)


def rate_table(measured: dict[str, float]) -> str:
    """Return the rates as a table."""
    names = {
        "locked": "bare locked counter, one id a call",
        "Twist": "Twist's generator, `next_id()`",
        "next_id": "`next_id()`",
        "blocks": "`next_ids(1000)`",
        "listed": "`list(next_ids(1000))`: every number made an object",
    }
    lines = ["| in one thread, from memory | million ids/s | against the locked counter |", "|---|---|---|"]
    lines += [
        f"| {name} | {measured[key] / 1e6:,.1f} | {measured[key] / measured['locked']:.1f}x |"
        for key, name in names.items()
    ]
    return "\n".join(lines)


def cost_table(costs: dict[Paced, Cost]) -> str:
    """Return the costs as a table."""
    heads = ["50,000 ids/s a process wanted, Azurite", "processes", "ids/s a process", "calls that waited", "p50 µs"]
    heads += ["p99 µs", "p99.9 ms", "worst ms", "worst ms, warm", "requests per million ids", "409/412 per million"]
    heads += ["requests per range, warm (ranges)"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for run, cost in costs.items():
        per_range = f"{cost.requests_per_range:.2f} ({cost.ranges})" if cost.ranges else ""
        lines.append(
            f"| {run.generator} | {run.processes} | {cost.ids / run.processes / run.seconds:,.0f} "
            f"| {cost.share_of_waits:.4%} | {cost.p50 * 1000:.2f} | {cost.p99 * 1000:.2f} | {cost.p999:.2f} "
            f"| {cost.worst:.1f} | {cost.worst_warm:.1f} | {cost.requests_per_million:,.1f} | {cost.refused_per_million:,.1f} | {per_range} |"
        )
    return "\n".join(lines)


def goals(measured: dict[str, float], alone: float, costs: dict[Paced, Cost]) -> list[tuple[str, str, bool]]:
    """Return each goal, what was measured, and whether it was reached."""
    ours = {run.processes: cost for run, cost in costs.items() if run.generator == "ours"}
    seed = {run.processes: cost for run, cost in costs.items() if run.generator == "Twist"}
    waited = max(cost.share_of_waits for cost in ours.values())
    ratio = measured["next_id"] / measured["locked"]
    blocks = measured["blocks"] / 1e6
    fewer = min(seed[n].requests_per_million / ours[n].requests_per_million for n in ours)
    worst = ours[8].worst / seed[8].worst
    warm = ours[8].worst_warm / seed[8].worst_warm
    eight = ours[8].requests_per_range
    return [
        ("calls without I/O, cold start included: at least 99.9 %", f"{1 - waited:.4%}", waited <= 0.001),
        ("`next_id()` against the bare locked counter: at least 2x", f"{ratio:.1f}x", ratio >= 2),
        ("`next_ids(1000)`: at least 100 million ids/s in one thread", f"{blocks:,.0f} million", blocks >= 100),
        ("blob requests against Twist's at range 1,000: at least 20x fewer", f"{fewer:.0f}x", fewer >= 20),
        ("requests per range, one process, 1,000 ranges: at most 1.05", f"{alone:.3f}", alone <= 1.05),
        ("requests per range, eight processes, warm: at most 2.4", f"{eight:.2f}", 0 < eight <= 2.4),
        (
            "worst wait with eight processes, cold start included: at most 0.2 of Twist's",
            f"{worst:.2f}",
            worst <= 0.2,
        ),
        ("the same without the first 3 seconds", f"{warm:.2f}", warm <= 0.2),
    ]


def goal_table(reached: list[tuple[str, str, bool]]) -> str:
    """Return the goals as a table."""
    lines = ["| goal | measured | |", "|---|---|---|"]
    return "\n".join(
        [*lines, *(f"| {goal} | {figure} | {'yes' if is_met else 'NO'} |" for goal, figure, is_met in reached)]
    )


def main(_arguments: Sequence[str] = ()) -> int:
    """Measure, print, write; return 0 when every goal is reached."""
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    measured = rates()
    with Azurite.start() as azurite:
        alone = requests_per_range_alone(azurite.connection_string)
    costs = {}
    for run in RUNS:
        # A fresh one for each, so that no run pays for what another left behind.
        with Azurite.start() as azurite:
            costs[run] = cost_of(run, azurite.connection_string)
    reached = goals(measured, alone, costs)
    tables = "\n\n".join([goal_table(reached), rate_table(measured), cost_table(costs)])
    print(tables)  # noqa: T201  # commands print
    figures = [{**asdict(run), **asdict(cost)} for run, cost in costs.items()]
    OUTPUT.write_text(json.dumps({"rates": measured, "alone": alone, "paced": figures, "goals": reached}, indent=1))
    write(DOCUMENT, "ids", tables)
    return 0 if all(is_met for *_, is_met in reached) else 1


if __name__ == "__main__":
    sys.exit(main())
