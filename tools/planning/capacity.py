"""Time of a load by the number of instances, and the ceiling that binds first. Pure arithmetic: makes no request.

The stages of a job follow each other: publish, start, work, finish. A payload in stretches is worked on while the rest is
published. While chunks are worked off, the lowest of several ceilings decides. A ceiling is a rate in transactions per second, so all of them compare. Nothing here models a queue
that fills, a retry or the pace at which Azure adds instances: a real run is slower.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from shared.ledger import MOST_ROWS
from shared.payload import WHOLE
from shared.pipeline import MOST
from shared.usage import BUS_OPERATIONS_OF_A_RESULT
from tools.planning import azure_limits as azure
from tools.planning.capacity_bill import count_requests
from tools.planning.load import Load, Machines
from tools.planning.measured import Constants

#: Instances of the rows, unless others are wanted.
STEPS: Final = (1, 2, 4, 8, 16, 32, 64, 100)
#: A message counts when it comes and when it goes.
MOVES: Final = 2
#: Rows of the index of unfinished work that one job writes and removes, all in one partition.
POINTERS_OF_A_JOB: Final = 5


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One thing that bounds the rate, and the transactions per second that it lets through."""

    name: str
    rate: float
    why: str
    #: The instances from which it binds, because they could do more.
    instances: int
    #: True: a stage of its own, whose time is added, however many instances there are.
    is_stage: bool = False


@dataclass(frozen=True, slots=True)
class Stages:
    """Seconds of each stage of the load, with so many instances."""

    instances: int
    #: Until the first chunks can start. Of a payload in stretches, work goes on beside the rest.
    publish: float
    start: float
    #: From the first chunk to the last one, and so at least as long as the rest of publishing.
    work: float
    finish: float
    #: The lowest ceiling of all: more instances than it has a use for do not help.
    first: Ceiling

    @property
    def total(self) -> float:
        """Seconds from the first line that is read to the last write."""
        return self.publish + self.start + self.work + self.finish


def stages(load: Load, machines: Machines, found: Constants, instances: int) -> Stages:
    """Return the seconds of each stage with so many instances."""
    every = [_workers(load, machines, found, instances), *ceilings(load, machines, found)]
    rate = min(one.rate for one in every if not one.is_stage)
    workers = min(instances, machines.working(load.chunks))
    # An instance works on whole chunks: the last ones of a job leave some of them idle.
    turns = math.ceil(load.chunks / (workers * machines.cores)) * load.chunk_cpu(found)
    chunk, publishing = load.chunk_wall(found), publish_seconds(load, found)
    # The publisher reads so many stretches before it sends any.
    first = publishing * min(1.0, WHOLE / max(1, load.stretches))
    return Stages(
        instances=instances,
        publish=first,
        start=found.start,
        work=max(load.transactions / rate, turns, chunk, publishing - first + chunk),
        # Of several jobs in one process, one computes while others wait for storage.
        finish=max(
            finish_seconds(load, machines, found, workers),
            (_merge_cpu(load, found) + _publish_cpu(load, found) + found.finish_job) * load.jobs / workers,
        ),
        first=min(every, key=_rate),
    )


def ceilings(load: Load, machines: Machines, found: Constants) -> list[Ceiling]:
    """Return the ceilings beside the number of instances, the lowest first."""
    return sorted(_ceilings(load, machines, found), key=_rate)


def publish_seconds(load: Load, found: Constants) -> float:
    """Return the seconds of a job's publisher. Jobs have a publisher each. The upload of a file is not counted."""
    return found.publisher.of(1, 0, 0) if load.is_ranged else found.publisher.of(1, load.job_chunks, load.job_items)


def finish_seconds(load: Load, machines: Machines, found: Constants, workers: int) -> float:
    """Return the seconds to finish one job, whose segments and shards so many instances merge."""
    segments, shards = load.segments(found), load.shards(found)
    accounts = math.ceil(load.accounts / shards)
    groups = math.ceil(accounts / MOST_ROWS)
    # Each transaction moves the fence of its partition, so one follows the other; and on Azure a partition takes so many rows.
    waits = groups * machines.round_trip
    if machines.shared_cores is None:
        waits = max(waits, accounts / azure.PARTITION.most - groups * found.totals)
    merged = _turns(segments, workers) * _merge_cpu(load, found)
    published = _turns(shards, workers) * (_publish_cpu(load, found) + shards * waits)
    return merged + published + found.finish_job


def _turns(pieces: int, workers: int) -> float:
    """Return the time of so many equal pieces side by side, as a part of the time of all in one process."""
    return math.ceil(pieces / workers) / pieces


def _merge_cpu(load: Load, found: Constants) -> float:
    return load.job_chunks * (found.finish_chunk + min(load.accounts, load.chunk) * found.merge)


def _publish_cpu(load: Load, found: Constants) -> float:
    """Return the seconds to join the segments and to write outputs and totals, over all shards."""
    segments, shards = load.segments(found), load.shards(found)
    joined = segments * load.accounts * found.merge if segments > 1 else 0.0
    return joined + shards * math.ceil(load.accounts / shards / MOST_ROWS) * found.totals


def _rate(ceiling: Ceiling) -> float:
    return ceiling.rate


def _workers(load: Load, machines: Machines, found: Constants, instances: int) -> Ceiling:
    per_second = 1 / load.chunk_wall(found) * machines.threads if load.wall else math.inf
    chunks = instances * min(machines.cores / load.chunk_cpu(found), per_second)
    what = "processor" if machines.cores / load.chunk_cpu(found) <= per_second else "threads"
    return Ceiling(f"{what} of each instance", chunks * load.chunk, "each instance has so much", instances)


def _ceilings(load: Load, machines: Machines, found: Constants) -> Iterable[Ceiling]:
    one = _workers(load, machines, found, 1).rate

    def ceiling(name: str, chunks: float, why: str, *, is_stage: bool = False) -> Ceiling:
        rate = chunks * load.chunk
        return Ceiling(name, rate, why, math.ceil(rate / one), is_stage)

    allowed = machines.allowed(load.chunks)
    working = math.ceil(allowed / machines.slot)
    tasks = allowed / load.chunk_wall(found) if load.wall else math.inf
    why = f"{allowed} tasks in slots of {machines.slot}: {working} instances work at a time"
    yield ceiling("tasks that the rules allow", min(tasks, working * one / load.chunk), why)
    yield ceiling(
        "maximum instance count", machines.most * one / load.chunk, f"{machines.most} of each function, a setting"
    )
    dispatchers = min(load.jobs, machines.most)
    put = max(found.put, machines.round_trip / MOST)
    yield ceiling("dispatch, one process per job", dispatchers / put, f"{put * 1000:.2g} ms per chunk, measured")
    yield ceiling(f"{machines.queues} work queues", machines.queues * azure.QUEUE.most / MOVES, azure.QUEUE.source)
    requests = count_requests(load, found).storage / load.chunks
    yield ceiling("storage account", azure.ACCOUNT.most / requests, azure.ACCOUNT.source)
    yield ceiling("rows of a job, one partition each", load.jobs * azure.PARTITION.most, azure.PARTITION.source)
    yield ceiling("bus, tier Standard", azure.BUS.most / BUS_OPERATIONS_OF_A_RESULT, azure.BUS.source)
    accepted = azure.PARTITION.most / POINTERS_OF_A_JOB
    yield ceiling("pointers to jobs, one partition", accepted * load.job_chunks, azure.PARTITION.source)
    publishing = load.chunks / publish_seconds(load, found)
    why = "sends a message" if load.is_ranged else "cuts and compresses the lines, measured"
    yield ceiling("publisher, one process per job", publishing, why, is_stage=True)
    finishing = dispatchers * load.job_chunks / finish_seconds(load, machines, found, machines.working(load.chunks))
    segments, shards = load.segments(found), load.shards(found)
    yield ceiling(
        "finish", finishing, f"segments and shards of a job: {segments} and {shards}, measured", is_stage=True
    )
    totals = shards * load.chunks / load.accounts * azure.PARTITION.most
    yield ceiling("totals of a job, one partition per shard", totals, azure.PARTITION.source, is_stage=True)
    if machines.shared_cores is not None:
        spent = load.chunk_cpu(found) + found.stand_ins.of(0, 1, load.chunk)
        yield ceiling("processors of this machine", machines.shared_cores / spent, "the emulators' share included")
