"""Requests, money, retention and memory of a load. Pure arithmetic: makes no request."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from shared.azure import BUS, RequestCounts
from shared.gate import TAKES_FOR
from shared.ledger import MOST_ROWS
from shared.payload import (
    LARGE,
    LARGE_FINISHES,
    SMALL_FINISHES,
    WORK,
    Limits,
    most_rows,
    of_chunk,
    of_dispatch,
    of_finish,
    of_plan,
)
from shared.pipeline import CURSOR_EVERY, CUT_PARTIAL, MOST_OF_A_BATCH, SEGMENT_PARTIAL
from shared.usage import (
    DAY,
    Bill,
    Prices,
    add,
    price,
    requests_of_chunks,
    take_counts,
    useful,
)
from tools.planning.comparison import INLINE_BYTES
from tools.planning.load import Load, Machines
from tools.planning.measured import Constants

#: Requests of a job of any size, beside its chunks: submission, ids, plan, row, pointers, outputs, end.
OF_A_JOB: Final = useful(table=19, blob_read=5, blob_write=6, blob_list=1, queue=2)
#: Requests of a segment, where a job has several: its message, rows and blob, the look for the others, and the join.
OF_A_SEGMENT: Final = useful(queue=4, table=2, blob_read=2, blob_write=1, blob_list=1)
#: Requests of a shard beside its slices and rows: its message, the job, its fence, plan, part and blob, the look for the others.
OF_A_SHARD: Final = useful(queue=4, table=3, blob_read=2, blob_write=2, blob_list=2)
#: Requests of each further span of a shard beside its cuts and rows: the fence, part and blob.
OF_A_SPAN: Final = useful(table=2, blob_write=2)
#: Requests of a stretch: its bytes, its blob and its message, then the job, its size, plan, ids and row.
OF_A_STRETCH: Final = useful(table=3, blob_read=4, blob_write=4, queue=3)
#: Requests of a range of a file beside its reads: its message, the job, its frames, blob, plan, ids and row.
OF_A_RANGE: Final = useful(table=4, blob_read=4, blob_write=4, queue=3)
#: Requests to bury a job of any size: its row, its plan, the publisher's two blobs, the empty last pages. A day later: the pointer
#: for that, the row, the look for blobs that came too late.
OF_A_BURIAL: Final = useful(table=10, blob_read=3, blob_list=3, blob_delete=3)
#: Bytes of one request when the publisher writes a large payload.
_BLOCK: Final = Limits().block_bytes
#: Seconds between two ticks.
TICK_EVERY: Final = 60


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests of a load, from the drop to the end, and those of its retention."""

    work: RequestCounts
    retention: RequestCounts

    @property
    def storage(self) -> int:
        """Storage requests, without those of retention."""
        return sum(number for charge, number in self.work.items() if charge.meter != BUS)

    @property
    def bus(self) -> int:
        """Operations of the bus."""
        return sum(number for charge, number in self.work.items() if charge.meter == BUS)

    @property
    def buried(self) -> int:
        """Storage requests of retention."""
        return sum(self.retention.values())


@dataclass(frozen=True, slots=True)
class Money:
    """The price of a load, without the fixed charge of the bus."""

    work: Bill
    retention: Bill
    #: Of the seconds of CPU, on instances that do nothing else: the least that computing costs.
    computing: Decimal

    @property
    def total(self) -> Decimal:
        """The sum."""
        return self.work.total + self.retention.total + self.computing


@dataclass(frozen=True, slots=True)
class Burial:
    """Retention of a day with this load, and the tick that it leaves."""

    #: Seconds of all ticks together.
    seconds: float
    #: Seconds of the longest tick.
    longest: float
    ticks: int

    @property
    def keeps_up(self) -> bool:
        """True if the ticks of a day bury the jobs of a day."""
        return self.ticks <= DAY // TICK_EVERY

    def most_a_day(self, transactions: int) -> float:
        """Return the transactions of a day, in jobs of the same size, that the ticks of a day bury."""
        return transactions * DAY / TICK_EVERY * TAKES_FOR.total_seconds() / self.seconds


@dataclass(frozen=True, slots=True)
class StageMemory:
    """The most memory of one process in one stage, in bytes, and its bound."""

    stage: str
    most: int
    bound: str


def count_requests(load: Load, found: Constants) -> Asked:
    """Count the requests of a load."""
    chunks, jobs = load.job_chunks, load.jobs
    is_enclosed = load.stored * load.chunk <= INLINE_BYTES
    reads = math.ceil(chunks / CURSOR_EVERY) if is_enclosed else chunks
    size = load.job_items * load.stored
    segments, shards, spans = load.segments(found), load.shards(found), load.spans(found)
    totals = shards * math.ceil(load.accounts / shards / MOST_ROWS)
    blocks = size // _BLOCK
    of_a_job = add(
        OF_A_JOB,
        _times(OF_A_SEGMENT, segments if segments > 1 else 0),
        # Each shard reads its cuts of each segment, once for each span; one step more adds the segments up before all shards.
        add(_times(OF_A_SHARD, shards), useful(blob_read=(shards * max(1, spans) + 1) * segments))
        if shards > 1
        else {},
        # Where its spans lie is written and read by the finish, and read by each shard. So the end reads no segment.
        add(_times(OF_A_SPAN, shards * (spans - 1)), useful(blob_read=shards + 2 - segments, blob_write=1))
        if spans
        else {},
        requests_of_chunks(chunks),
        take_counts(chunks),
        useful(table=totals, blob_read=reads, blob_write=blocks + (1 if blocks else 0)),
    )
    return Asked(_times(add(of_a_job, _growth(load)), jobs), _times(_burial(load), jobs))


def _growth(load: Load) -> RequestCounts:
    """Return the requests of the stretches of one job, or of the ranges of its file."""
    if not load.is_ranged:
        return _times(OF_A_STRETCH, load.stretches)
    reads = math.ceil(load.job_items * load.expanded / _BLOCK)
    return add(_times(OF_A_RANGE, load.stretches), useful(blob_read=reads))


def price_load(load: Load, machines: Machines, found: Constants, prices: Prices) -> Money:
    """Price a load."""
    asked = count_requests(load, found)
    seconds = found.app.of(load.jobs, 0, 0) + load.chunks * (load.chunk_cpu(found) + found.finish_chunk)
    gigabytes = Decimal(seconds / machines.cores) * machines.gigabytes
    return Money(price(asked.work, prices), price(asked.retention, prices), gigabytes * prices.functions.gb_second)


def bury(load: Load, machines: Machines, found: Constants) -> Burial:
    """Return the retention of a day with this load. All jobs of a day end together, so they are due together."""
    # Azurite answers at once. On Azure each request takes its round trip as well.
    trips = sum(_burial(load).values()) * machines.round_trip
    seconds = load.jobs * (found.retire_job + load.job_chunks * found.retire_chunk + trips)
    # A tick that has no time left ends its group.
    group = found.retire_job + min(load.job_chunks, MOST_OF_A_BATCH) * found.retire_chunk
    bound = TAKES_FOR.total_seconds()
    return Burial(seconds, found.tick + min(seconds, bound + group), math.ceil(seconds / bound))


def memory(load: Load, machines: Machines, found: Constants) -> list[StageMemory]:
    """Return the most memory of a process in each stage: what it holds at rest, and what its work reserves."""
    limits, base = Limits(), found.app_bytes
    plan, chunks = of_plan(load.frames, load.planned_items, load.chunk, limits), load.planned_items // load.chunk + 1
    dispatch = of_dispatch(chunks, most_rows(chunks, load.planned_items, limits))
    chunk = of_chunk(load.stored * load.chunk, load.expanded * load.chunk, load.chunk, limits)
    finish = of_finish(CUT_PARTIAL if load.spans(found) else min(load.merged_bytes, SEGMENT_PARTIAL))
    finishes = LARGE_FINISHES if finish >= LARGE else SMALL_FINISHES
    return [
        StageMemory("publisher", found.publisher_bytes, "one frame at a time, measured"),
        StageMemory("accept", base + min(WORK, plan), "index and plan of one job, or of a stretch"),
        StageMemory("dispatch", base + min(WORK, dispatch), "one plan, a hundred messages"),
        StageMemory("process", base + min(WORK, machines.threads * chunk), f"{machines.threads} chunks at a time"),
        StageMemory("finish", base + min(finishes, finish), "merged partial, window of results"),
        StageMemory("tick", base, "a group of rows or blobs"),
    ]


def _burial(load: Load) -> RequestCounts:
    chunks = load.job_chunks
    # A stretch has a row, its bytes, its blob and its plan.
    blobs = math.ceil(chunks / MOST_OF_A_BATCH) + math.ceil(3 * load.stretches / MOST_OF_A_BATCH)
    rows = math.ceil((chunks + load.stretches) / MOST_ROWS)
    # A group of rows is read and deleted, a group of blobs is listed and deleted.
    return add(OF_A_BURIAL, useful(table=2 * rows, blob_list=blobs, blob_delete=blobs))


def _times(usage: RequestCounts, times: int) -> RequestCounts:
    return {charge: number * times for charge, number in usage.items()}
