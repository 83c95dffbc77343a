"""A load: so many transactions in so many jobs, and the app that is to bear it. Plain data."""

import math
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

import msgspec

from shared.concurrency import BUILT_IN, Observation
from shared.ledger import MERGED_MOST
from shared.payload import Limits
from shared.pipeline import (
    APART,
    CUT_ABOVE,
    SEGMENT_BYTES,
    SEGMENT_CHUNKS,
    SEGMENT_PARTIAL,
    SHARD_BYTES,
    SHARDS,
    SPAN_BYTES,
    Speed,
    choose,
    choose_cuts,
    choose_shards,
)
from shared.usage import INSTANCE_GB
from shared.workloads.billing import Billing
from tools.planning.measured import Constants


@cache
def account_json() -> int:
    """Return the bytes of JSON that an account takes in a partial of billing."""
    charges = [(f"account-{number:06}", "EUR", Decimal("1000.50"), Decimal("27.50")) for number in range(2)]
    one, both = (len(msgspec.json.encode(Billing().combine(charges[:count]))) for count in (1, 2))
    return both - one


#: A workload's wall time as the app notes it: milliseconds of so many transactions.
_NOTED = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Transactions of a day in equal jobs, all dropped at once: the hardest day with that volume."""

    transactions: int
    jobs: int = 1
    #: None: `auto`.
    chunk_items: int | None = None
    #: Accounts of one job.
    accounts: int = 500
    #: Seconds of CPU per transaction in the workload. None: billing, as measured.
    cpu: float | None = None
    #: Seconds from the start of a chunk to its result, per transaction. None: its CPU alone.
    wall: float | None = None
    #: True: the workload has `split`, as billing has.
    has_split: bool = True
    #: True: its payload is a plain file in the container, of which no publisher makes frames.
    is_raw: bool = False
    #: Stored bytes of a transaction in its payload.
    stored: int = 25
    #: Expanded bytes.
    expanded: int = 170

    @property
    def job_items(self) -> int:
        """Transactions of one job."""
        return math.ceil(self.transactions / self.jobs)

    @property
    def chunk(self) -> int:
        """Transactions of one chunk."""
        if self.chunk_items is not None:
            return min(self.chunk_items, self.job_items)
        speed = (
            None if self.wall is None else Speed(milliseconds=max(1, round(self.wall * _NOTED * 1000)), items=_NOTED)
        )
        return min(choose(self.job_items, speed, is_waiting=False), self.job_items)

    @property
    def job_chunks(self) -> int:
        """Chunks of one job."""
        return math.ceil(self.job_items / self.chunk)

    @property
    def chunks(self) -> int:
        """Chunks of all jobs."""
        return self.jobs * self.job_chunks

    @property
    def frames(self) -> int:
        """Frames that are planned together, as the publisher of the library cuts them."""
        return math.ceil(self.planned_items / min(Limits().frame_items, self.chunk))

    @property
    def stretches(self) -> int:
        """Stretches of one job's payload, or ranges of its file. 0: it goes whole."""
        limits, text = Limits(), self.job_items * self.expanded
        if text <= limits.whole_bytes and self.job_items <= limits.items_most:
            return 0
        return max(math.ceil(text / limits.stretch_bytes), math.ceil(self.job_items / limits.items_most))

    @property
    def is_ranged(self) -> bool:
        """True if the workers cut its file."""
        return self.is_raw and self.stretches > 0

    @property
    def planned_items(self) -> int:
        """Transactions that are planned together: all of one job, or those of one stretch."""
        return math.ceil(self.job_items / max(1, self.stretches))

    def segments(self, found: Constants) -> int:
        """Return the segments of one job, which several instances merge."""
        held = min(self.accounts, self.chunk) * found.account_bytes
        partial = self.partial_bytes / self.job_chunks
        whole = self.job_chunks * max(1 / SEGMENT_CHUNKS, held / SEGMENT_BYTES, partial / SEGMENT_PARTIAL)
        return 1 if whole <= 1 else min(self.job_chunks, max(math.ceil(whole), APART))

    def shards(self, found: Constants) -> int:
        """Return the shards of one job's totals, each in a partition of its own."""
        segments = self.segments(found)
        if not self.has_split or segments == 1:
            return 1
        return SHARDS if self.spans(found) else choose_shards(self._merged_segments(found), SHARDS, SHARD_BYTES)

    def spans(self, found: Constants) -> int:
        """Return the spans of each shard, one after the other. 0: a shard is published in one piece."""
        if not self.has_split or choose_cuts(self.partial_bytes, CUT_ABOVE, SHARDS) == SHARDS:
            return 0
        return math.ceil(self._merged_segments(found) / SHARDS / SPAN_BYTES)

    def _merged_segments(self, found: Constants) -> int:
        """Return the stored bytes of all merged segments."""
        segments = self.segments(found)
        # A segment has an account once, in however many of its chunks it is.
        return segments * min(self.accounts, math.ceil(self.job_items / segments)) * found.account_bytes

    @property
    def partial_bytes(self) -> int:
        """Bytes of JSON of all chunks' partials of one job."""
        return self.job_chunks * min(self.accounts, self.chunk) * account_json()

    @property
    def merged_bytes(self) -> int:
        """Bytes of JSON of one job's merged partial."""
        return min(self.accounts, self.job_items) * account_json()

    @property
    def is_too_large(self) -> bool:
        """True if one process would have to merge more than it may."""
        return not self.has_split and self.merged_bytes > MERGED_MOST

    def chunk_cpu(self, found: Constants) -> float:
        """Return the seconds of CPU of the app for one chunk, from its message to the credit of its result."""
        own = 0.0 if self.cpu is None else self.cpu - found.workload
        # Workers cut the lines of a range as a publisher does those of its file.
        own += found.publisher.transaction if self.is_ranged else 0.0
        whole = found.app.of(0, 1, self.chunk) - found.finish_chunk + self.chunk * own
        return max(whole, found.put) + found.host.of(0, 1, self.chunk)

    def chunk_wall(self, found: Constants) -> float:
        """Return the seconds of one chunk in its thread, on an instance that does nothing else."""
        return max(self.chunk_cpu(found), 0.0 if self.wall is None else self.wall * self.chunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """The instances of the app, and the settings that bound them."""

    #: Processors of an instance. One process of Python uses one at most.
    cores: float = 1.0
    #: Tasks that rules of an operator allow over the whole fleet. None: the built-in rules, by the messages that wait.
    tasks: int | None = None
    #: Tasks of a slot, and slots that one instance runs at a time: the permits that its host lets in.
    slot: int = 4
    slots: int = 4
    queues: int = 1
    #: The maximum instance count, which bounds each function group: here that of `drain_work`.
    most: int = 100
    gigabytes: int = INSTANCE_GB
    #: Seconds of a request on its way, there and back. Assumed.
    round_trip: float = 0.01
    #: Processors of the one machine that runs all instances, Azurite and the broker: a benchmark's. None: Azure.
    shared_cores: float | None = None

    @property
    def threads(self) -> int:
        """Chunks that one instance works on at a time, at most."""
        return self.slot * self.slots

    def allowed(self, chunks: int) -> int:
        """Return the tasks that may run while so many chunks wait."""
        return self.tasks or BUILT_IN.ask(Observation(depth=chunks)).tasks

    def working(self, chunks: int) -> int:
        """Return the instances that may work at a time. Each takes a whole slot."""
        return min(self.most, math.ceil(self.allowed(chunks) / self.slot))
