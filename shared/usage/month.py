"""The forecast of a month: the work of the last days or of a trace, extrapolated, idle days and fixed charges."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from shared.azure import BUS, RequestCounts
from shared.ledger import Job
from shared.usage.bill import add, price, useful
from shared.usage.idle import Asker, Installation, idle_day
from shared.usage.job_bill import count_requests, take_counts
from shared.usage.prices import Prices

MONTH: Final = timedelta(days=30)
#: A shorter time counts as this, because it predicts a month too badly.
LEAST: Final = timedelta(days=1)
#: The requests of one chunk whose result travels in its message: it is put on a queue with its bytes.
OF_A_CHUNK: Final = useful(queue=1)
#: The requests that a group of chunks shares: its results are written and read together, and its rows are written.
OF_A_GROUP: Final = useful(table=1, blob_write=1, blob_read=1)
#: The number of chunks of such a group.
CHUNKS_OF_A_GROUP: Final = 30


@dataclass(frozen=True, slots=True)
class WorkVolume:
    """An amount of work, and the time in which it arrived."""

    usage: RequestCounts
    chunks: int
    span: timedelta
    #: The origin of these figures, as the command shows it.
    source: str

    def a_month(self) -> RequestCounts:
        """Extrapolate the requests to thirty days."""
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
    demand: WorkVolume

    def total(self, *, with_assumed: bool = False) -> Decimal:
        """Add up the known items, with `with_assumed` all of them."""
        return sum((item.amount for item in self.items if item.is_proven or with_assumed), Decimal())


def demand_of_jobs(jobs: Sequence[Job], now: datetime) -> WorkVolume:
    """Measure the demand by the jobs that were accepted lately."""
    chunks = sum(job.done + job.parked_chunks for job in jobs)
    usage = add(*map(count_requests, jobs), *(take_counts(job.done + job.parked_chunks) for job in jobs))
    since = min((job.accepted_at for job in jobs), default=now)
    return WorkVolume(usage, chunks, now - since, f"{len(jobs)} jobs since {since:%Y-%m-%d %H:%M} UTC")


def demand_of_arrivals(arrivals: Iterable[tuple[datetime, float, int]], source: str) -> WorkVolume:
    """Measure the demand by a trace: the start of each interval, its seconds, and the chunks that arrived in it."""
    intervals = list(arrivals)
    chunks = sum(arrived for _, _, arrived in intervals)
    starts = [at for at, _, _ in intervals]
    ends = [at + timedelta(seconds=seconds) for at, seconds, _ in intervals]
    span = max(ends) - min(starts) if intervals else timedelta()
    usage = add(requests_of_chunks(chunks), take_counts(chunks))
    return WorkVolume(usage, chunks, span, source)


def requests_of_chunks(chunks: int) -> RequestCounts:
    """Return the requests of the app for so many chunks, from their queue to the outputs of their job."""
    groups = -(-chunks // CHUNKS_OF_A_GROUP)
    own = {charge: number * chunks for charge, number in OF_A_CHUNK.items()}
    return add(own, {charge: number * groups for charge, number in OF_A_GROUP.items()})


def forecast_month(demand: WorkVolume, installation: Installation, prices: Prices) -> Month:
    """Forecast the cost of thirty days with this demand."""
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


def price_idle_month(asker: Asker, prices: Prices, operations: int = 0) -> Decimal:
    """Price thirty such days, after this many operations of the bus: the first millions come with the namespace."""
    usage = {charge: number * MONTH.days for charge, number in asker.usage.items()}
    return price(_storage(usage), prices).total + prices.bus.price(_bus(usage), before=operations)


def _idle(asker: Asker, prices: Prices, operations: int) -> Item:
    amount = price_idle_month(asker, prices, operations)
    return Item(f"{asker.who}: {asker.what}", asker.a_day * MONTH.days, amount, asker.is_proven)


def _ready(installation: Installation, prices: Prices) -> list[Item]:
    if not installation.instances:
        return []
    seconds = Decimal(MONTH.total_seconds()) * installation.instances * installation.instance_gb
    what = f"fixed: {installation.instances} always-ready instance(s) of {installation.instance_gb} GB"
    return [Item(what, 0, seconds * prices.functions.ready_gb_second)]


def _storage(usage: RequestCounts) -> RequestCounts:
    return {charge: number for charge, number in usage.items() if charge.meter != BUS}


def _bus(usage: RequestCounts) -> int:
    return sum(number for charge, number in usage.items() if charge.meter == BUS)
