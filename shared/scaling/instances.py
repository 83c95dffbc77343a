"""How many instances a gate's held work needs from its first second on, function by function, and what they cost; pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Final

from shared.ledger import FINISHED, Job
from shared.usage import Functions

#: Azure takes no lower maximum, and no higher one.
LEAST_MAXIMUM, MOST_MAXIMUM = 40, 1000
#: Results that one instance settles in a second: it works strictly in batches, one after the other.
RESULTS_A_SECOND: Final = 200
#: Of a chunk whose like was never seen.
CHUNK_SECONDS: Final = 1.0
#: What else runs beside those below, and must fit under the maximum: tick, park_dead, HTTP.
OTHERS: Final = 3
MONTH: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldVolume:
    """What waits behind a gate."""

    jobs: int
    chunks: int
    #: Held messages that are no job of the ledger: their owners know what follows from them.
    others: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRequest:
    """What the operator wants, and what the installation is like."""

    #: Time from the opening to the last chunk.
    within: timedelta
    #: Time before the opening at which the instances are to be there.
    lead: timedelta
    #: Seconds that a whole instance is busy with one chunk.
    chunk_seconds: float = CHUNK_SECONDS
    work_queues: int = 1
    is_push: bool = False
    memory_mb: int = 2048


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """Instances that are always ready, by function; the most over all functions; and the price."""

    always_ready: Mapping[str, int]
    maximum: int
    memory_mb: int
    #: What they cost while they wait for the opening and work, and if nobody takes them back for a month.
    window: Decimal
    month: Decimal
    #: The time in which the work can be done with so many; longer than what was wanted where the maximum binds.
    finishes_in: timedelta

    @property
    def instances(self) -> int:
        """All that are always ready."""
        return sum(self.always_ready.values())


def plan(held: HeldVolume, wanted: InstanceRequest, prices: Functions) -> InstancePlan:
    """Return what the held work needs; nothing held needs nothing."""
    if not held.jobs:
        return InstancePlan({}, LEAST_MAXIMUM, wanted.memory_mb, Decimal(), Decimal(), timedelta())
    seconds, work = wanted.within.total_seconds(), held.chunks * wanted.chunk_seconds
    settlers = max(1, math.ceil(held.chunks / seconds / RESULTS_A_SECOND))
    room = MOST_MAXIMUM - settlers - OTHERS - 2
    workers = max(1, min(math.ceil(work / seconds), held.chunks, room))
    ready = {
        "release_gate": 1,
        "accept_submission": 1,
        **_workers(workers, wanted),
        "settle_results": settlers,
    }
    finishes_in = timedelta(seconds=work / workers)
    busy, waiting = (
        sum(ready.values()) * wanted.memory_mb / Decimal(1024),
        wanted.lead + max(wanted.within, finishes_in),
    )
    return InstancePlan(
        ready,
        max(LEAST_MAXIMUM, sum(ready.values()) + OTHERS),
        wanted.memory_mb,
        _price(busy, waiting, prices) + _running(work, wanted, prices),
        _price(busy, MONTH, prices),
        finishes_in,
    )


def _workers(workers: int, wanted: InstanceRequest) -> dict[str, int]:
    if wanted.is_push:
        return {"drain_work": workers}
    # Chunks are spread over the queues evenly, and each queue's function has instances of its own.
    each = math.ceil(workers / wanted.work_queues)
    return {"process_chunk" if not n else f"process_chunk_{n:02}": each for n in range(wanted.work_queues)}


def _price(gigabytes: Decimal, time: timedelta, prices: Functions) -> Decimal:
    return gigabytes * Decimal(time.total_seconds()) * prices.ready_gb_second


def _running(seconds: float, wanted: InstanceRequest, prices: Functions) -> Decimal:
    return Decimal(seconds) * wanted.memory_mb / 1024 * prices.ready_running_gb_second


def chunk_seconds(jobs: Sequence[Job]) -> float:
    """Return what a chunk of these jobs took at most: their chunks one at a time, though several share an instance."""
    ended = [job for job in jobs if job.state in FINISHED and job.done]
    done, milliseconds = sum(job.done for job in ended), sum(job.milliseconds for job in ended)
    return milliseconds / done / 1000 if done and milliseconds else CHUNK_SECONDS
