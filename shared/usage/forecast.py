"""What a month will cost: the work of the last days or of a trace as if it went on, idleness, and fixed charges; pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from shared.ledger.records import Job
from shared.usage.bill import Usage, added, price, useful
from shared.usage.idle import Asker, Installation, idle_day
from shared.usage.job_bill import metered, taken
from shared.usage.prices import Prices
from shared.usage.requests import BUS

MONTH: Final = timedelta(days=30)
#: Less than this is too little to tell a month from.
LEAST: Final = timedelta(days=1)
#: Of one chunk of the usual size, what its stages request: put on a queue with its bytes, its result written and read.
OF_A_CHUNK: Final = useful(queue=1, blob_read=1, blob_write=1)
#: Rows of the ledger: so many chunks share one request.
CHUNKS_A_TABLE_REQUEST: Final = 30


@dataclass(frozen=True, slots=True)
class Demand:
    """Work, and the time in which it came."""

    usage: Usage
    chunks: int
    span: timedelta
    #: Where it is from, for a person.
    source: str

    def a_month(self) -> Usage:
        """Return the usage of thirty such days."""
        share = Decimal(MONTH / max(self.span, LEAST))
        return {charge: int(number * share) for charge, number in self.usage.items()}


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the forecast."""

    what: str
    requests: int
    amount: Decimal
    is_proven: bool = True


@dataclass(frozen=True, slots=True)
class Month:
    """The forecast of a month."""

    items: tuple[Item, ...]
    demand: Demand

    def total(self, *, with_assumed: bool = False) -> Decimal:
        """Return the sum, of what is known or of everything."""
        return sum((item.amount for item in self.items if item.is_proven or with_assumed), Decimal())


def demand_of_jobs(jobs: Sequence[Job], now: datetime) -> Demand:
    """Return the demand of jobs that were accepted lately."""
    chunks = sum(job.done + job.parked_chunks for job in jobs)
    usage = added(*map(metered, jobs), *(taken(job.done + job.parked_chunks) for job in jobs))
    since = min((job.accepted_at for job in jobs), default=now)
    return Demand(usage, chunks, now - since, f"{len(jobs)} jobs since {since:%Y-%m-%d %H:%M} UTC")


def demand_of_arrivals(arrivals: Iterable[tuple[datetime, float, int]], source: str) -> Demand:
    """Return the demand of a trace: when, for how many seconds, how many chunks came."""
    found = list(arrivals)
    chunks = sum(arrived for _, _, arrived in found)
    times = [at for at, _, _ in found]
    ends = [at + timedelta(seconds=seconds) for at, seconds, _ in found]
    span = max(ends) - min(times) if found else timedelta()
    own = {charge: number * chunks for charge, number in OF_A_CHUNK.items()}
    usage = added(own, useful(table=-(-chunks // CHUNKS_A_TABLE_REQUEST)), taken(chunks))
    return Demand(usage, chunks, span, source)


def month(demand: Demand, installation: Installation, prices: Prices) -> Month:
    """Return what thirty days cost when the demand goes on."""
    work = demand.a_month()
    askers = idle_day(installation)
    operations = _bus(work)
    items = [
        Item("the work: storage", sum(work.values()) - operations, price(_storage(work), prices).total),
        Item("the work: bus", operations, prices.bus.price(operations)),
        *(_idle(asker, prices, operations) for asker in askers),
        Item("fixed: the bus namespace, with its first operations", 0, prices.bus.month),
        *_ready(installation, prices),
    ]
    return Month(tuple(items), demand)


def _idle(asker: Asker, prices: Prices, operations: int) -> Item:
    usage = {charge: number * MONTH.days for charge, number in asker.usage.items()}
    amount = price(_storage(usage), prices).total + prices.bus.price(_bus(usage), before=operations)
    return Item(f"{asker.who}: {asker.what}", sum(usage.values()), amount, asker.is_proven)


def _ready(installation: Installation, prices: Prices) -> list[Item]:
    if not installation.instances:
        return []
    seconds = Decimal(MONTH.total_seconds()) * installation.instances * installation.instance_gb
    what = f"fixed: {installation.instances} always-ready instance(s) of {installation.instance_gb} GB"
    return [Item(what, 0, seconds * prices.functions.ready_gb_second)]


def _storage(usage: Usage) -> Usage:
    return {charge: number for charge, number in usage.items() if charge.meter != BUS}


def _bus(usage: Usage) -> int:
    return sum(number for charge, number in usage.items() if charge.meter == BUS)
