"""The plan of instances for a gate's held work: how many each function needs from the first second, and their price.

It makes no request.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Final

from shared.ledger import FINISHED, Job
from shared.usage import Functions

#: Azure's bounds for the maximum number of instances.
LEAST_MAXIMUM, MOST_MAXIMUM = 40, 1000
#: Results that one instance settles per second: it settles batches one after the other.
RESULTS_A_SECOND: Final = 200
#: Assumed seconds of a chunk, while no job has run.
CHUNK_SECONDS: Final = 1.0
#: Instances of the functions outside the plan, which must fit under the maximum too: tick, park_dead, HTTP.
OTHERS: Final = 3
MONTH: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldVolume:
    """The work that waits behind a gate."""

    jobs: int
    chunks: int
    #: Held messages without a job in the ledger. Only their owners know the work that follows.
    others: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRequest:
    """The operator's request, and the properties of the installation."""

    #: The time from the opening to the last chunk.
    within: timedelta
    #: The instances must be ready this long before the opening.
    lead: timedelta
    #: Seconds that one chunk occupies a whole instance.
    chunk_seconds: float = CHUNK_SECONDS
    work_queues: int = 1
    is_push: bool = True
    memory_mb: int = 2048


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """The always-ready instances by function, the maximum over all functions, and the price."""

    always_ready: Mapping[str, int]
    maximum: int
    memory_mb: int
    #: The price while they wait for the opening and work.
    window: Decimal
    #: The price if the operator leaves them for a month.
    month: Decimal
    #: The time that these instances need for the work. It exceeds the requested time if the maximum binds.
    finishes_in: timedelta

    @property
    def instances(self) -> int:
        """The number of all always-ready instances."""
        return sum(self.always_ready.values())


def plan(held: HeldVolume, wanted: InstanceRequest, prices: Functions) -> InstancePlan:
    """Plan the instances for the held work. The plan is empty without held work."""
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
    gigabytes = sum(ready.values()) * wanted.memory_mb / Decimal(1024)
    window = wanted.lead + max(wanted.within, finishes_in)
    return InstancePlan(
        ready,
        max(LEAST_MAXIMUM, sum(ready.values()) + OTHERS),
        wanted.memory_mb,
        _price_ready(gigabytes, window, prices) + _price_running(work, wanted, prices),
        _price_ready(gigabytes, MONTH, prices),
        finishes_in,
    )


def _workers(workers: int, wanted: InstanceRequest) -> dict[str, int]:
    if wanted.is_push:
        return {"drain_work": workers}
    # Chunks are spread evenly over the queues, and each queue's function has its own instances.
    each = math.ceil(workers / wanted.work_queues)
    return {"process_chunk" if not n else f"process_chunk_{n:02}": each for n in range(wanted.work_queues)}


def _price_ready(gigabytes: Decimal, time: timedelta, prices: Functions) -> Decimal:
    return gigabytes * Decimal(time.total_seconds()) * prices.ready_gb_second


def _price_running(seconds: float, wanted: InstanceRequest, prices: Functions) -> Decimal:
    return Decimal(seconds) * wanted.memory_mb / 1024 * prices.ready_running_gb_second


def chunk_seconds(jobs: Sequence[Job]) -> float:
    """Return an upper bound for the instance time of a chunk of these jobs: several may share an instance."""
    ended = [job for job in jobs if job.state in FINISHED and job.done]
    done, milliseconds = sum(job.done for job in ended), sum(job.milliseconds for job in ended)
    return milliseconds / done / 1000 if done and milliseconds else CHUNK_SECONDS
