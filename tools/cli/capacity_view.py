"""Capacity estimates as tables and JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Self

from rich.table import Table

from shared.usage import Prices
from tools.cli.cost_view import plain
from tools.planning.capacity import Ceiling, Stages, ceilings, stages
from tools.planning.capacity_bill import (
    Asked,
    Burial,
    Money,
    StageMemory,
    bury,
    count_requests,
    memory,
    price_load,
)
from tools.planning.load import Load, Machines
from tools.planning.measured import Constants
from tools.planning.most import Most

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Estimate:
    """Everything that the command says of a load."""

    load: Load
    machine: str
    prices: Prices
    rows: Sequence[Stages]
    ceilings: Sequence[Ceiling]
    asked: Asked
    money: Money
    burial: Burial
    memory: Sequence[StageMemory]
    segments: int
    shards: int
    most: Most

    @classmethod
    def of(  # noqa: PLR0913 - each is one fact about the load or about the app
        cls,
        load: Load,
        machines: Machines,
        found: Constants,
        prices: Prices,
        instances: Sequence[int],
        *,
        groups: int,
    ) -> Self:
        """Estimate a load for each number of instances, within the maximum of a function group."""
        steps = [one for one in instances if one <= machines.most] or [machines.most]
        return cls(
            load,
            found.machine,
            prices,
            [stages(load, machines, found, one) for one in steps],
            ceilings(load, machines, found),
            count_requests(load, found),
            price_load(load, machines, found, prices),
            bury(load, machines, found),
            memory(load, machines, found),
            load.segments(found),
            load.shards(found),
            Most(groups=groups, maximum=machines.most, gigabytes=Decimal(machines.gigabytes)),
        )


def document(one: Estimate) -> dict[str, object]:
    """Return an estimate as JSON."""
    load = one.load
    return {
        "transactions": load.transactions,
        "jobs": load.jobs,
        "chunk_items": load.chunk,
        "chunks": load.chunks,
        "segments_of_a_job": one.segments,
        "shards_of_a_job": one.shards,
        "measured_on": one.machine,
        "plans": [
            {
                "instances": row.instances,
                "seconds": round(row.total, 3),
                "stages": {name: round(getattr(row, name), 3) for name in ("publish", "start", "work", "finish")},
                "first_ceiling": row.first.name,
            }
            for row in one.rows
        ],
        "ceilings": [{**asdict(ceiling), "rate": round(ceiling.rate)} for ceiling in one.ceilings],
        "storage_requests": one.asked.storage,
        "bus_operations": one.asked.bus,
        "retention_requests": one.asked.buried,
        "amount": plain(one.money.total),
        "currency": one.prices.currency,
        "function_groups": one.most.groups,
        "instances_at_most": one.most.instances,
        "amount_of_an_hour_at_most": plain(one.most.price_hour(one.prices.functions)),
        "longest_tick_seconds": round(one.burial.longest, 3),
        "retention_seconds": round(one.burial.seconds, 3),
        "retention_ticks": one.burial.ticks,
        "retention_keeps_up": one.burial.keeps_up,
        "retention_most_a_day": round(one.burial.most_a_day(load.transactions)),
        "memory": {stage.stage: stage.most for stage in one.memory},
    }


def tables(one: Estimate) -> list[Table]:
    """Return an estimate for a person."""
    load = one.load
    title = (
        f"{load.transactions:,} transactions at once: {load.jobs:,} jobs, {load.chunks:,} chunks of {load.chunk:,}, "
        f"{load.accounts:,} accounts per job"
    )
    times = Table(*TIMES, title=title, caption=f"estimated from constants of {one.machine}; none was measured on Azure")
    for cells in time_rows(one.rows):
        times.add_row(*cells)
    bounds = Table("ceiling", "transactions/s", "from instances", "why", title="Ceilings, the lowest first")
    for cells in ceiling_rows(one.ceilings):
        bounds.add_row(*cells)
    costs = Table("what", "how much", title="The same with any number of instances", caption=f"prices: {one.prices}")
    for name, value in cost_rows(one):
        costs.add_row(name, value)
    return [times, bounds, costs]


TIMES = ("instances", "done after", "publish", "start", "work", "finish", "transactions/s", "ceiling that comes first")


def time_rows(rows: Sequence[Stages]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a row for each number of instances."""
    for row in rows:
        seconds = (row.total, row.publish, row.start, row.work, row.finish)
        yield str(row.instances), *(f"{one:,.1f} s" for one in seconds), f"{row.first.rate:,.0f}", row.first.name


def ceiling_rows(found: Sequence[Ceiling]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a row for each ceiling."""
    for one in found:
        yield one.name, f"{one.rate:,.0f}", f"{one.instances:,}", one.why


def cost_rows(one: Estimate) -> Iterator[tuple[str, str]]:
    """Yield the requests, the money, the ticks and the memory."""
    load, burial, currency = one.load, one.burial, one.prices.currency
    yield "storage requests", f"{one.asked.storage:,} ({one.asked.storage / load.transactions * 1000:.2f} per 1,000)"
    yield "bus operations", f"{one.asked.bus:,} ({one.asked.bus / load.transactions * 1000:.2f} per 1,000)"
    yield "requests of its retention", f"{one.asked.buried:,}"
    yield f"{currency}: requests and bus", f"{one.money.work.total:.4f}"
    yield f"{currency}: retention", f"{one.money.retention.total:.4f}"
    yield f"{currency}: computing, at least", f"{one.money.computing:.4f}"
    kept = "the ticks of a day are enough" if burial.keeps_up else "a day has 1,440: retention falls behind"
    yield "retention, time of ticks", f"{burial.seconds:,.1f} s in {burial.ticks:,} ticks: {kept}"
    yield "retention keeps up with", f"{burial.most_a_day(load.transactions):,.0f} transactions a day"
    yield "longest tick", f"{burial.longest:.1f} s"
    yield f"instances at most, of {one.most.groups} function groups", f"{one.most.instances:,}"
    yield f"{currency}: an hour of so many", f"{one.most.price_hour(one.prices.functions):.2f}"
    for stage in one.memory:
        yield f"memory at most: {stage.stage}", f"{stage.most / MIB:,.0f} MiB ({stage.bound})"
