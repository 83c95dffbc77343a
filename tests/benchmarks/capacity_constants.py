"""Measures the constants of the capacity model, the stack with one process first, then its pieces alone."""

import os
import platform
import time
from collections.abc import Callable
from decimal import Decimal
from statistics import median

import msgspec
import zstandard

from shared.azure.connections import Connections
from shared.ledger.ledger import MOST_ROWS
from shared.pipeline.outputs import TotalsTable, TotalsWriter
from shared.topology import topology
from shared.workloads import Total
from shared.workloads.billing import Billing, UsageRecord
from tests.benchmarks import large_job
from tests.benchmarks.busy import Busy
from tests.benchmarks.large_job import Case
from tests.benchmarks.pipeline_measure import ACCOUNTS, transactions
from tests.benchmarks.pipeline_sluice import SluiceRun, sluice
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision
from tools.planning.measured import FILE, Constants, Shares

SMALL, LARGE = 1_000, 8_000
#: Transactions of the small job, whose costs are mostly those of any job.
LEAST = 10_000
#: Jobs of ten chunks each, for the costs of a job alone.
JOBS = 10
LINES, GROUPS, MERGES = 20_000, 20, 20


def measure(items: int, runs: int, jobs_items: int) -> Constants:
    """Measure every constant, write it to its file, and return all. `items`: of a job that the stack runs."""
    many = _middle(SMALL, items, runs)
    small = _middle(SMALL, LEAST, runs)
    few = _middle(LARGE, items, runs)
    shares = {
        who: _shares(who, small, many, few) for who in ("publisher", "app", "local host", "Azurite", "local broker")
    }
    put, finish_job, finish_chunk, retire_job, retire_chunk, tick, at_rest = _pieces(jobs_items)
    totals, (merge, account_bytes) = total_group(), merged_account()
    finish_chunk = max(0.0, finish_chunk - ACCOUNTS * merge)
    finish_job = max(0.0, finish_job - -(-ACCOUNTS // MOST_ROWS) * totals)
    began = few.stretches["until its first hundred chunks were put"]
    found = Constants(
        machine=f"{os.cpu_count()} cores, Python {platform.python_version()}, Azurite",
        publisher=shares["publisher"],
        app=shares["app"],
        host=shares["local host"],
        stand_ins=_add(shares["Azurite"], shares["local broker"]),
        workload=own_cpu(Billing().map),
        start=max(0.0, began - min(100, few.job.chunks) * put),
        put=put,
        finish_job=finish_job,
        finish_chunk=finish_chunk,
        merge=merge,
        account_bytes=account_bytes,
        totals=totals,
        retire_job=retire_job,
        retire_chunk=retire_chunk,
        tick=tick,
        app_bytes=at_rest,
        publisher_bytes=many.peaks["publisher"],
    )
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(_rounded(found)), indent=2) + b"\n")
    return found


def own_cpu(price: Callable[[UsageRecord, int], object]) -> float:
    """Return the seconds of CPU of a workload's own code per transaction."""
    decoder = msgspec.json.Decoder(UsageRecord)
    found = [decoder.decode(line) for line in transactions(LINES)]
    began = time.process_time()
    for number, one in enumerate(found):
        price(one, number)
    return (time.process_time() - began) / LINES


def busy_cpu() -> float:
    """Return the same of the workload that computes."""
    return own_cpu(Busy().map)


def total_group() -> float:
    """Return the seconds of CPU of one group of totals, without those of Azurite."""
    with Azurite.start() as azurite:
        provision(azurite.connection_string, topology())
        with Connections(azurite.connection_string, "no bus") as connections:
            table = TotalsTable(connections.tables.get_table_client("totals"))
            writer = TotalsWriter(table, "bench", 1)
            began = time.process_time()
            for number in range(GROUPS * MOST_ROWS):
                writer.write(Total(f"account-{number:06}", {"items": number, "amount_EUR": str(Decimal(number))}))
            writer.close()
            return (time.process_time() - began) / GROUPS


def merged_account() -> tuple[float, int]:
    """Return the seconds to decode and merge one account of a chunk's partial, and its bytes as stored."""
    billing, decoder = Billing(), msgspec.json.Decoder(UsageRecord)
    mapped = [billing.map(decoder.decode(line), number) for number, line in enumerate(transactions(LINES))]
    partial = billing.combine([one for one in mapped if isinstance(one, tuple)])
    stored, whole = msgspec.json.encode(partial), billing.combine([])
    began = time.process_time()
    for _ in range(MERGES):
        whole = billing.merge(whole, msgspec.json.decode(stored, type=billing.partial))
    packed = zstandard.ZstdCompressor(level=1).compress(stored)
    return (time.process_time() - began) / MERGES / ACCOUNTS, round(len(packed) / ACCOUNTS)


def _middle(chunk: int, items: int, runs: int) -> SluiceRun:
    with sluice(chunk, instances=1) as running:
        running.run(LEAST)
        found = sorted((running.run(items) for _ in range(runs)), key=lambda one: sum(one.cpus.values()))
    return found[len(found) // 2]


def _shares(who: str, small: SluiceRun, many: SluiceRun, few: SluiceRun) -> Shares:
    """Return the shares of job, chunk and transaction, of two jobs of one size and a small one."""
    cpu_small, cpu_many, cpu_few = (one.cpus[who] for one in (small, many, few))
    chunk = max(0.0, (cpu_many - cpu_few) / (many.job.chunks - few.job.chunks))
    items, chunks = few.job.items - small.job.items, few.job.chunks - small.job.chunks
    transaction = max(0.0, (cpu_few - cpu_small - chunks * chunk) / items)
    return Shares(max(0.0, cpu_small - small.job.chunks * chunk - small.job.items * transaction), chunk, transaction)


def _pieces(items: int) -> tuple[float, float, float, float, float, float, int]:
    large, several = (large_job.run(case, SMALL) for case in (Case(1, items), Case(JOBS, 10 * SMALL)))
    chunks, few = items // SMALL, 10
    finish_chunk = (large["finish"]["wall"] - several["finish"]["wall"] / JOBS) / (chunks - few)
    retire_chunk = (large["bury"]["ticking"] - several["bury"]["ticking"] / JOBS) / (chunks - few)
    return (
        (large["accept"]["cpu"] - several["accept"]["cpu"] / JOBS) / (chunks - few),
        max(0.0, several["finish"]["wall"] / JOBS - few * finish_chunk),
        finish_chunk,
        max(0.0, several["bury"]["ticking"] / JOBS - few * retire_chunk),
        retire_chunk,
        median([large["wait"]["longest"], several["wait"]["longest"]]),
        large["wait"]["peak"],
    )


def _add(one: Shares, other: Shares) -> Shares:
    return Shares(one.job + other.job, one.chunk + other.chunk, one.transaction + other.transaction)


def _rounded(found: Constants) -> object:
    """Return the constants as plain data with three significant digits."""

    def short(value: object) -> object:
        if isinstance(value, dict):
            return {name: short(one) for name, one in value.items()}
        return float(f"{value:.3g}") if isinstance(value, float) else value

    return short(msgspec.to_builtins(found))
