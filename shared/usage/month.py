"""The requests of a day without work, and the forecast of a month.

On an idle day, the app, its host and the platform around both make requests. A month costs the work of the last days or
of a trace, extrapolated, plus the idle days and the fixed charges. Nothing here makes a request.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

from shared.azure import BUS, RequestCounts
from shared.ledger import Job
from shared.topology import work_queue_names
from shared.usage.bill import add, price, useful
from shared.usage.diary import MOST_UNNOTED
from shared.usage.job_bill import count_requests, take_counts
from shared.usage.prices import Prices

DAY: Final = 86_400
#: The tick's two queries: gates that hold work, and due pointers.
REQUESTS_OF_A_TICK: Final = 2
#: The daily check of rooms: containers that are gone, queues that no trigger reads.
OF_ROOMS: Final = useful(queue=1, blob_list=1)
#: Minutes between two reads of a poison queue.
POISON_MINUTES: Final = 15
#: The host's intervals in seconds, for the lease of the leading instance and that of the instance with the timer.
PRIMARY_RENEWAL, PRIMARY_RETRY = 12, 5
TIMER_RENEWAL, TIMER_RETRY = 30, 60
#: Seconds that a receive on the bus waits for a message.
BUS_WAIT: Final = 60
#: Bus entities with a trigger: `results`, its dead letters, `signals/release`. In push mode, `signals/work` too.
BUS_LISTENERS: Final = 3


class Who(StrEnum):
    """The origin of a request."""

    APP = "the app"
    HOST = "the host"
    PLATFORM = "the platform"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The properties of an installation that decide its requests on an idle day."""

    is_push: bool = True
    work_queues: int = 1
    #: Rooms beside the common one.
    rooms: int = 0
    #: Always-ready instances. Without any, no instance polls, and each tick starts one.
    instances: int = 1
    instance_gb: int = 2
    tick_seconds: int = 60
    #: host.json, extensions.queues.maxPollingInterval.
    polling_seconds: int = 60
    #: Seconds between two reads of a queue by the scale controller. An assumption, because Azure does not document it.
    scaler_seconds: int = 10


@dataclass(frozen=True, slots=True)
class Asker:
    """Requests of one origin and purpose on a day."""

    who: Who
    what: str
    usage: RequestCounts
    #: False if none of our measurements can see these requests.
    is_proven: bool = True

    @property
    def a_day(self) -> int:
        """The number of requests per day."""
        return sum(self.usage.values())


def idle_day(installation: Installation) -> list[Asker]:
    """List the requests of a day without work, by origin and purpose."""
    return [*_app(installation), *_host(installation), *_platform(installation)]


def _app(one: Installation) -> list[Asker]:
    ticks, queues = DAY // one.tick_seconds, 1 + one.rooms + one.work_queues
    looks = queues * DAY // (60 * POISON_MINUTES)
    return [
        Asker(Who.APP, "tick: gates that hold something, what is due", useful(table=REQUESTS_OF_A_TICK * ticks)),
        Asker(Who.APP, f"tick: {queues} poison queues every {POISON_MINUTES} minutes", useful(queue=looks)),
        Asker(Who.APP, "tick: payloads without a submission, once a day", _payload_sweep(one.rooms)),
        Asker(Who.APP, "tick: rooms without a container, queues without a room, once a day", OF_ROOMS),
        Asker(
            Who.APP,
            "notes of its own request counts",
            useful(table=(REQUESTS_OF_A_TICK * ticks + looks) // MOST_UNNOTED),
        ),
    ]


def _payload_sweep(rooms: int) -> RequestCounts:
    """Count a sweep that finds no old payload: its pointer twice, a peek per queue, a page per container."""
    return useful(table=2, queue=1 + rooms, blob_list=2 + rooms)


def _host(one: Installation) -> list[Asker]:
    if not one.instances:
        return []
    polls, ticks, others = one.instances * DAY // one.polling_seconds, DAY // one.tick_seconds, one.instances - 1
    rooms = [f"the queue of room {n}" for n in range(1, one.rooms + 1)]
    queues = ["submissions", *rooms, *work_queue_names(0 if one.is_push else one.work_queues)]
    primary = DAY // PRIMARY_RENEWAL + others * DAY // PRIMARY_RETRY
    timer = DAY // TIMER_RENEWAL + others * DAY // TIMER_RETRY
    return [
        *(Asker(Who.HOST, f"poll {queue}", useful(queue=polls)) for queue in queues),
        Asker(Who.HOST, "lease of the instance that leads", useful(blob_other=primary)),
        Asker(Who.HOST, "lease of the timer", useful(blob_other=timer)),
        Asker(Who.HOST, "status of the timer", useful(blob_write=ticks)),
    ]


def _platform(one: Installation) -> list[Asker]:
    listeners = BUS_LISTENERS + one.is_push
    queues = 1 + one.rooms + (0 if one.is_push else one.work_queues)
    waits = one.instances * listeners * DAY // BUS_WAIT
    looks = DAY // one.scaler_seconds
    return [
        Asker(Who.PLATFORM, "receives on the bus that end empty", useful(bus=waits), is_proven=False),
        Asker(Who.PLATFORM, "scale controller: depth of the queues", useful(queue=queues * looks), is_proven=False),
        Asker(Who.PLATFORM, "scale controller: counts of the bus", useful(bus=listeners * looks), is_proven=False),
    ]


MONTH: Final = timedelta(days=30)
#: A shorter time counts as this, because it predicts a month too badly.
LEAST: Final = timedelta(days=1)
#: The requests of one chunk of the usual size: put on a queue with its bytes, its result written and read.
OF_A_CHUNK: Final = useful(queue=1, blob_read=1, blob_write=1)
#: The number of chunks whose rows in the ledger share one request.
CHUNKS_A_TABLE_REQUEST: Final = 30


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
    own = {charge: number * chunks for charge, number in OF_A_CHUNK.items()}
    usage = add(own, useful(table=-(-chunks // CHUNKS_A_TABLE_REQUEST)), take_counts(chunks))
    return WorkVolume(usage, chunks, span, source)


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


def _storage(usage: RequestCounts) -> RequestCounts:
    return {charge: number for charge, number in usage.items() if charge.meter != BUS}


def _bus(usage: RequestCounts) -> int:
    return sum(number for charge, number in usage.items() if charge.meter == BUS)
