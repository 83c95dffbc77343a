"""What the machine and Azurite allow: work of a goal, without Sluice's stages, a queue or a wait."""

import multiprocessing
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from statistics import median
from typing import Final

from azure.data.tables import TableClient

from shared.azure import Connections
from shared.grammar import shard_partition
from shared.pipeline.finish_blobs import SHARDS
from shared.pipeline.outputs import TotalsTable, TotalsWriter
from shared.workloads import Total, shard_of
from shared.workloads.billing import UsageRecord
from tests.benchmarks.busy import Busy
from tools.local.azurite.launcher import Azurite

#: Shards that are written at a time; Azurite writes one row at a time, however many ask.
AT_A_TIME: Final = 8
_SPAWNED = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Bounds:
    """What was measured."""

    #: Seconds to write the rows of totals alone, by the number of accounts.
    rows: Mapping[int, float]
    #: How much faster two plain processes compute than one.
    gain: float


def measure(accounts: Collection[int], items: int, runs: int) -> Bounds:
    """Return the medians of so many runs."""
    rows = {number: median(_seconds_of_rows(number) for _ in range(runs)) for number in accounts}
    return Bounds(rows, median(_gain_of_a_process(items) for _ in range(runs)))


def _seconds_of_rows(accounts: int) -> float:
    """Return the seconds in which Azurite takes the rows of so many accounts, from the writer that the shards use."""
    with Azurite.start() as azurite, Connections(azurite.connection_string) as connections:
        table = connections.tables.create_table("totals")
        # The connections are paid for before.
        _write(table, "warm-up", 10 * SHARDS)
        began = time.monotonic()
        _write(table, "job", accounts)
        return time.monotonic() - began


def _write(table: TableClient, job: str, accounts: int) -> None:
    cuts: list[list[Total]] = [[] for _ in range(SHARDS)]
    for number in range(accounts):
        account = f"account-{number:06}"
        cuts[shard_of(account, SHARDS)].append(Total(account, {"items": 200, "amount_EUR": "123456.78"}))

    def write(shard: int) -> None:
        writer = TotalsWriter(TotalsTable(table), shard_partition(job, shard), 1)
        for total in cuts[shard]:
            writer.write(total)
        writer.close()

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(write, range(SHARDS)))


def _gain_of_a_process(items: int) -> float:
    """Return how much faster two plain processes compute than one: each of them so many transactions, and nothing else."""
    return 2 * _seconds_of(1, items) / _seconds_of(2, items)


def _seconds_of(processes: int, items: int) -> float:
    together, took = _SPAWNED.Barrier(processes), _SPAWNED.Queue()
    running = [_SPAWNED.Process(target=_compute, args=(together, took, items)) for _ in range(processes)]
    for process in running:
        process.start()
    found = [took.get() for _ in running]
    for process in running:
        process.join()
    return max(found)


def _compute(together: Barrier, took: "Queue[float]", items: int) -> None:
    usage, workload = UsageRecord("account-000001", "basic", Decimal(1)), Busy()
    together.wait()
    began = time.monotonic()
    for number in range(items):
        workload.map(usage, number)
    took.put(time.monotonic() - began)
