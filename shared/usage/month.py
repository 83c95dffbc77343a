"""The forecast of a month: the work of the last days or of a trace, extrapolated, idle days and fixed charges.

The requests of a day without work, by origin: the app, its host, and the platform around both. Makes none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from shared.azure import BUS, RequestCounts
from shared.capability import Chosen, Trigger, TriggerKind
from shared.grammar import ROOMS_A_DAY, ROOMS_A_TICK
from shared.ledger import Job
from shared.topology import POISON_SUFFIX, WAKE, join_entities, submission_queue, topology
from shared.usage.bill import Prices, add, count_requests, price, take_counts, useful
from shared.usage.diary import MOST_UNNOTED
from shared.watch import IDLE_EVERY

DAY: Final = 86_400
#: The tick's two queries: gates that hold work, and due pointers.
REQUESTS_OF_A_TICK: Final = 2
#: Hours between two reads of the depths of the work queues, by push.
DEPTHS_HOURS: Final = 1
#: Minutes between two reads of a poison queue of a capability, and of the base. Messages there have failed for good, so they may
#: wait. The host has tried one of the base for most of an hour.
POISON_MINUTES, BASE_POISON_MINUTES = 15, 60
#: The host's intervals in seconds, for the lease of the leading instance and that of the instance with the timer.
PRIMARY_RENEWAL, PRIMARY_RETRY = 12, 5
TIMER_RENEWAL, TIMER_RETRY = 30, 60
#: Seconds that a receive on the bus waits for a message.
BUS_WAIT: Final = 60
#: Bus entities with a trigger: `results`, its dead letters, `hints`, `signals/release`. By push, `permits` too.
BUS_LISTENERS: Final = 4
#: Function groups without a queue: the routes share one, and the tick is one.
OTHER_GROUPS: Final = 2
#: How a host's poll of an idle queue is called.
POLL: Final = "poll "
#: The interval of the host at which it polls an idle queue, in host.json and as the setting that overrides it.
_POLLING: Final = ("extensions", "queues", "maxPollingInterval")
_SETTING: Final = f"AzureFunctionsJobHost__{'__'.join(_POLLING)}"
#: Without either the host polls once a minute.
_UNSAID: Final = "00:01:00"


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
    capabilities: tuple[Chosen, ...] = ()
    #: Always-ready instances. Without any, no instance polls, and each tick starts one.
    instances: int = 1
    instance_gb: int = 2
    tick_seconds: int = 60
    #: host.json, extensions.queues.maxPollingInterval.
    polling_seconds: float = 60
    #: Seconds between two reads of a queue by the scale controller. An assumption, because Azure does not document it.
    scaler_seconds: int = 10

    @property
    def polled(self) -> tuple[str, ...]:
        """The storage queues with a trigger: that of the common room, that of permits by trigger, those of capabilities."""
        own = (one.source for one in self._triggers if one.kind is TriggerKind.QUEUE)
        return (submission_queue(), *(() if self.is_push else (WAKE,)), *own)

    @property
    def polls_a_day(self) -> int:
        """The requests per day of one instance for one idle queue."""
        return int(DAY / self.polling_seconds)

    @property
    def poison_reads(self) -> int:
        """The reads of poison queues on a day, in both modes: of the base, and those of capabilities more often."""
        own = join_entities([one for chosen in self.capabilities for one in chosen.entities])
        base, others = (
            sum(name.endswith(POISON_SUFFIX) for name in some.queues) for some in (topology(self.work_queues), own)
        )
        return (base * DAY // BASE_POISON_MINUTES + others * DAY // POISON_MINUTES) // 60

    @property
    def bus_listeners(self) -> int:
        """The number of entities of the bus with a trigger."""
        return BUS_LISTENERS + self.is_push + sum(one.listens_on_bus for one in self._triggers)

    @property
    def function_groups(self) -> int:
        """The function groups that Azure scales, each by itself: one per trigger, one for all routes, one for the timer."""
        return len(self.polled) + self.bus_listeners + OTHER_GROUPS

    @property
    def _triggers(self) -> list[Trigger]:
        return [trigger for one in self.capabilities for trigger in one.triggers]


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

    @property
    def is_poll(self) -> bool:
        """True if the host polls an idle queue."""
        return self.what.startswith(POLL)


def polling_seconds(host_json: Mapping[str, Any], environ: Mapping[str, str]) -> float:
    """Return the interval at which the host polls an idle queue, by its file and the setting that overrides it."""
    found: Any = host_json
    for name in _POLLING:
        found = found.get(name, {}) if isinstance(found, Mapping) else {}
    hours, minutes, seconds = (environ.get(_SETTING) or found or _UNSAID).split(":")
    return timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds)).total_seconds()


def idle_day(installation: Installation) -> list[Asker]:
    """List the requests of a day without work, by origin and purpose."""
    return [*_app(installation), *_host(installation), *_platform(installation)]


def _app(one: Installation) -> list[Asker]:
    ticks = DAY // one.tick_seconds
    # A point of each quarter, and at each hour the needs that stand.
    recorded = DAY // (60 * IDLE_EVERY) + DAY // 3_600
    looks, net = one.poison_reads, min(one.rooms, ROOMS_A_TICK) * ticks
    # The urgent lane is one more.
    depths = (one.work_queues + 1) * DAY // (3_600 * DEPTHS_HOURS)
    steps = [step for own in one.capabilities for step in own.capability.tick]
    own = [(step.meaning, step.requests * (ticks if step.minute is None else DAY // 3_600)) for step in steps]
    return [
        Asker(Who.APP, "tick: gates that hold something, what is due", useful(table=REQUESTS_OF_A_TICK * ticks)),
        Asker(Who.APP, "tick: poison queues, once an hour, those of capabilities each quarter", useful(queue=looks)),
        *([Asker(Who.APP, "tick: the rooms in turn", useful(queue=net))] if net else []),
        Asker(Who.APP, "tick: depths of the work queues, once an hour", useful(queue=depths)),
        *(Asker(Who.APP, f"tick: {meaning}", useful(table=number)) for meaning, number in own),
        Asker(
            Who.APP, "tick: what it saw, each quarter of an hour, and what stands, each hour", useful(table=recorded)
        ),
        Asker(Who.APP, "tick: what was recorded long ago, once a day", useful(table=1)),
        Asker(Who.APP, "tick: payloads without a submission, once a day", _payload_sweep(one.rooms)),
        Asker(Who.APP, "tick: old notes of deliveries, once a day", useful(table=1)),
        # Its rows, the entries, and the note that both agree. A process that starts reads the note.
        Asker(Who.APP, "tick: the index of causes, once a day", useful(table=4)),
        Asker(Who.APP, "tick: jobs that are listed as under way, once a day", useful(table=1)),
        Asker(
            Who.APP,
            "tick: rooms without a container, queues that no function reads, once a day",
            # With rooms, one more for the poison queues that those of 0.3.0 had.
            useful(queue=2 if one.rooms else 1, blob_list=1),
        ),
        Asker(
            Who.APP,
            "notes of its own request counts",
            useful(
                table=(REQUESTS_OF_A_TICK * ticks + sum(number for _, number in own) + looks + net + depths + recorded)
                // MOST_UNNOTED
            ),
        ),
    ]


def _payload_sweep(rooms: int) -> RequestCounts:
    """Count a sweep that finds no old payload: its pointer twice, a peek per queue, a page per container."""
    rooms = min(rooms, ROOMS_A_DAY)
    return useful(table=2, queue=1 + rooms, blob_list=2 + rooms)


def _host(one: Installation) -> list[Asker]:
    if not one.instances:
        return []
    polls, ticks, others = one.polls_a_day * one.instances, DAY // one.tick_seconds, one.instances - 1
    primary = DAY // PRIMARY_RENEWAL + others * DAY // PRIMARY_RETRY
    timer = DAY // TIMER_RENEWAL + others * DAY // TIMER_RETRY
    return [
        *(Asker(Who.HOST, f"{POLL}{queue}", useful(queue=polls)) for queue in one.polled),
        Asker(Who.HOST, "lease of the instance that leads", useful(blob_other=primary)),
        Asker(Who.HOST, "lease of the timer", useful(blob_other=timer)),
        Asker(Who.HOST, "status of the timer", useful(blob_write=ticks)),
    ]


def _platform(one: Installation) -> list[Asker]:
    listeners = one.bus_listeners
    waits = one.instances * listeners * DAY // BUS_WAIT
    looks = DAY // one.scaler_seconds
    return [
        Asker(Who.PLATFORM, "receives on the bus that end empty", useful(bus=waits), is_proven=False),
        Asker(
            Who.PLATFORM,
            "scale controller: depth of the queues",
            useful(queue=len(one.polled) * looks),
            is_proven=False,
        ),
        Asker(Who.PLATFORM, "scale controller: counts of the bus", useful(bus=listeners * looks), is_proven=False),
    ]


MONTH: Final = timedelta(days=30)
#: A shorter time counts as this, because it predicts a month too badly.
LEAST: Final = timedelta(days=1)
#: The requests of one chunk whose result travels in its message: it is put on a queue with its bytes.
OF_A_CHUNK: Final = useful(queue=1)
#: The requests that a group of chunks shares: its results are written and read together, and its rows are written.
OF_A_GROUP: Final = useful(table=1, blob_write=1, blob_read=1)
#: The requests of a job beside those: it is accepted, held, started, and finished.
OF_A_JOB: Final = useful(table=16, blob_write=3, blob_read=4, blob_list=1, blob_other=2)
#: All of a job of one chunk, whose plan is in its row and whose result is in a message.
OF_A_SMALL_JOB: Final = useful(table=16, blob_write=3, blob_read=2, blob_list=1, queue=1)
#: The requests of a job that runs again, beside those of each chunk, whose transactions are read once more.
OF_A_RERUN: Final = useful(table=18, blob_write=3, blob_read=1, blob_list=1)
#: The requests of an entry that is replayed: found, marked, its bytes read and put, looked for, closed; its chunk as well.
OF_A_REPLAYED: Final = useful(table=9, blob_read=2, queue=1)
#: The requests of a wave of a replay, whose row says how far it is.
OF_A_WAVE: Final = useful(table=6)
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


def requests_of_job(chunks: int) -> RequestCounts:
    """Return the requests of a whole job, as its bill has them at its end, by processes that are at work."""
    own = [OF_A_SMALL_JOB] if chunks == 1 else [OF_A_JOB, requests_of_chunks(chunks)]
    return add(*own, take_counts(chunks))


def requests_of_rerun(chunks: int) -> RequestCounts:
    """Return the requests that another run of a job adds to its bill."""
    return add(OF_A_RERUN, useful(queue=chunks, blob_read=chunks), take_counts(chunks))


def requests_of_replay(entries: int, waves: int, jobs: int) -> RequestCounts:
    """Return the requests of a replay, of its entries, and of so many jobs that are finished once more."""
    own = {charge: number * entries for charge, number in OF_A_REPLAYED.items()}
    each = [{charge: number * jobs for charge, number in OF_A_RERUN.items()}, take_counts(entries)]
    return add(own, {charge: number * waves for charge, number in OF_A_WAVE.items()}, *each)


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
