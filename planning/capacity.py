"""Capacity for an hourly volume: the tasks it needs, the share of the services' limits it uses, and its price.

The volume is released at once, as behind a gate: the hardest hour with that volume. Each row is a replay.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from planning.simulated_push import Push
from planning.simulator import Simulation
from planning.synthetic import DAY, PUT_RATE
from shared.concurrency import Ratio, Rule, Rules, Stretch, Trace, TraceHeader
from shared.usage import Prices, price, useful

#: The requests per chunk besides its queue messages: its payload if that is too large for a message, its result, and the
#: message about the result.
PER_CHUNK: Final = {"blob_read": 1, "blob_write": 1, "bus": 3}
#: Documented targets per second: messages of one queue, requests of one account, operations of one namespace of the
#: tier Standard. The plan uses half of each. The rest is for retries and for other users.
QUEUE_RATE, ACCOUNT_RATE, BUS_RATE = 2_000, 20_000, 1_000
HEADROOM: Final = 0.5
#: The numbers of tasks of the rows.
STEPS: Final = (4, 8, 16, 32, 64, 128, 256)


@dataclass(frozen=True, slots=True)
class Load:
    """An hour's volume and its division into chunks."""

    transactions: int
    chunk_items: int
    #: Seconds of work per chunk.
    seconds_each: float
    #: Tasks per instance.
    tasks_each: int = 4

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return math.ceil(self.transactions / self.chunk_items)


@dataclass(frozen=True, slots=True)
class Plan:
    """One row: the outcome with so many tasks."""

    tasks: int
    instances: int
    #: Seconds from the release to the end of the last chunk, and the delay that 95 % of the chunks do not exceed.
    emptied: float
    p95: float
    #: Requests per second while it runs. `queues` is the number of queues that keeps each below its target.
    account_rate: float
    bus_rate: float
    queues: int
    amount: Decimal

    @property
    def is_in_time(self) -> bool:
        """True if the hour is enough for the hour's volume."""
        return self.emptied <= 3600

    @property
    def is_within_limits(self) -> bool:
        """True if one account and one namespace bear the rates."""
        return self.account_rate <= ACCOUNT_RATE * HEADROOM and self.bus_rate <= BUS_RATE * HEADROOM


def plans(load: Load, prices: Prices, steps: Iterable[int] = STEPS) -> list[Plan]:
    """Return a row for each number of tasks."""
    return [_plan(load, tasks, prices) for tasks in steps]


def _plan(load: Load, tasks: int, prices: Prices) -> Plan:
    stretch = Stretch(at=DAY, seconds=load.chunks / PUT_RATE, arrived=load.chunks, latency=load.seconds_each)
    rules = Rules(1, (Rule("capacity", (), Ratio(1)),), most=tasks)
    outcome = Simulation(
        Trace(TraceHeader(what="synthetic"), [stretch]), Push(rules, permit_tasks=min(tasks, load.tasks_each))
    ).run()
    seconds = max(outcome.delays, default=0.0) + load.seconds_each + stretch.seconds
    each = useful(**{name: number * load.chunks for name, number in PER_CHUNK.items()})
    requests = outcome.count() - outcome.count("bus") + (PER_CHUNK["blob_read"] + PER_CHUNK["blob_write"]) * load.chunks
    return Plan(
        tasks=tasks,
        instances=math.ceil(tasks / load.tasks_each),
        emptied=seconds,
        p95=outcome.delay(95),
        account_rate=requests / seconds,
        bus_rate=(outcome.count("bus") + PER_CHUNK["bus"] * load.chunks) / seconds,
        queues=max(1, math.ceil(max(PUT_RATE, load.chunks / seconds) / (QUEUE_RATE * HEADROOM))),
        amount=price(outcome.usage, prices).total + price(each, prices).total,
    )
