"""The plan of instances for a gate's held work: how many each function needs from the first second, and their price.

It makes no request.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from shared.ledger import FINISHED, Job
from shared.usage import Functions

#: The instances of one function group at most: as infra/ gives it, and as Azure takes it. Each function without HTTP is a
#: group of its own (Azure/azure-rest-api-specs #45083, 2026-07-29).
GIVEN_MAXIMUM, MOST_MAXIMUM = 100, 1000
#: Results that one instance settles per second: it settles batches one after the other.
RESULTS_A_SECOND: Final = 200
#: Assumed seconds of a chunk, while no job has run.
CHUNK_SECONDS: Final = 1.0
MONTH: Final = timedelta(days=30)
#: However long the work is planned to run, the instances are given back after this.
LONGEST: Final = timedelta(hours=6)
#: The planned time of the work, times this, bounds how long the instances stay after the opening.
PATIENCE: Final = 3
#: The instances are wanted this long before the opening.
LEAD: Final = timedelta(minutes=10)
#: The time from the opening to the last chunk, unless an operator wants another one.
WITHIN: Final = timedelta(minutes=10)


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
    within: timedelta = WITHIN
    #: The instances must be ready this long before the opening.
    lead: timedelta = LEAD
    #: Seconds that one chunk occupies a whole instance.
    chunk_seconds: float = CHUNK_SECONDS
    memory_mb: int = 2048
    #: Always-ready instances of all functions of the plan together.
    most: int = MOST_MAXIMUM


@dataclass(frozen=True, slots=True)
class InstancePlan:
    """The always-ready instances by function, the maximum of each function group, and the price."""

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


def count_instances(held: HeldVolume, wanted: InstanceRequest) -> dict[str, int]:
    """Return the always-ready instances by function for the held work: an empty dict without it.

    `release_gate` dispatches by itself, so no instance of `accept_submission` is needed.
    """
    if not held.jobs:
        return {}
    seconds, work = wanted.within.total_seconds(), held.chunks * wanted.chunk_seconds
    settlers = max(1, min(math.ceil(held.chunks / seconds / RESULTS_A_SECOND), wanted.most // 4))
    workers = max(1, min(math.ceil(work / seconds), held.chunks, wanted.most - settlers - 1))
    return {"release_gate": 1, "drain_work": workers, "settle_results": settlers}


def plan(held: HeldVolume, wanted: InstanceRequest, prices: Functions) -> InstancePlan:
    """Plan the instances for the held work, and price them. The plan is empty without held work."""
    ready = count_instances(held, wanted)
    work = held.chunks * wanted.chunk_seconds if ready else 0.0
    workers = ready.get("drain_work", 0)
    finishes_in = timedelta(seconds=work / workers) if workers else timedelta()
    gigabytes = sum(ready.values()) * wanted.memory_mb / Decimal(1024)
    window = wanted.lead + max(wanted.within, finishes_in)
    return InstancePlan(
        ready,
        max(GIVEN_MAXIMUM, *ready.values()) if ready else GIVEN_MAXIMUM,
        wanted.memory_mb,
        _price_ready(gigabytes, window, prices) + _price_running(work, wanted, prices),
        _price_ready(gigabytes, MONTH, prices),
        finishes_in,
    )


def end_at_latest(opens_at: datetime, within: timedelta) -> datetime:
    """Return when instances are given back at the latest."""
    return opens_at + min(PATIENCE * within, LONGEST)


def price_at_most(wanted: InstanceRequest, until: timedelta, prices: Functions) -> Decimal:
    """Price the most instances that a request may get, from the lead to so long after the opening, all at work."""
    gigabytes, time = wanted.most * wanted.memory_mb / Decimal(1024), wanted.lead + until
    return _price_ready(gigabytes, time, prices) + gigabytes * Decimal(until.total_seconds()) * (
        prices.ready_running_gb_second
    )


def _price_ready(gigabytes: Decimal, time: timedelta, prices: Functions) -> Decimal:
    return gigabytes * Decimal(time.total_seconds()) * prices.ready_gb_second


def _price_running(seconds: float, wanted: InstanceRequest, prices: Functions) -> Decimal:
    return Decimal(seconds) * wanted.memory_mb / 1024 * prices.ready_running_gb_second


def chunk_seconds(jobs: Sequence[Job]) -> float:
    """Return an upper bound for the instance time of a chunk of these jobs: several may share an instance."""
    ended = [job for job in jobs if job.state in FINISHED and job.done]
    done, milliseconds = sum(job.done for job in ended), sum(job.milliseconds for job in ended)
    return milliseconds / done / 1000 if done and milliseconds else CHUNK_SECONDS
