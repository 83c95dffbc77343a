"""Every queue, topic, subscription, filter, container and table that Sluice uses, defined once.

The local broker, the local provisioning, the official emulator's Config.json and the tests read this module. Bicep is
checked against it. An entity that is added only elsewhere fails a test.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, TypeAlias
from zlib import crc32

#: Service Bus allows 5 seconds to 5 minutes for a lock.
SHORTEST_LOCK, LONGEST_LOCK = timedelta(seconds=5), timedelta(minutes=5)
#: After this time others see the message of work whose holder died. Every lock of work lasts so long, and every message
#: that the app receives itself is hidden for it. It is renewed at half of that, but for a batch.
GUARD = timedelta(seconds=18)
#: A batch is not renewed, so it begins nothing after these seconds. They and one request without an answer end below GUARD.
BATCH_SECONDS = 7.0
#: Seconds for which a slot, or a slice of a gate, is leased, and until the lease is renewed. It is not longer than GUARD: a kill costs no more.
LEASE_SECONDS, RENEW_AFTER = 18, 7.0
#: A message that comes again had a holder that died. Who gets it looks so often, until GUARD is over.
LOOKS_EVERY = 1.0
#: How long a signal and a hint live. They start long work: one that expired under it would not come again.
SIGNAL_LIFE = timedelta(minutes=10)
#: The suffix of a storage queue's poison queue. The Functions host fixes it.
POISON_SUFFIX = "-poison"
#: The container of plans and of payloads that the app framed again. No publisher has a role on it.
PLANS = "plans"
#: The common room's queue and container. Another room adds its name to each; its queue identifies a message's sender.
_SUBMISSIONS, _PAYLOADS = "submissions", "payloads"
_WORK = "work-"
_TABLES = "jobs pending held totals parked receipts decisions audit jobindex usage replays nights"
#: Of a capability with read models: the tables of rows, and that of the models. A migration builds in the table of rows
#: that its model does not use.
SLOTS, MODELS = ("readmodela", "readmodelb"), "models"
#: The work queue that tasks ask first.
URGENT = f"{_WORK}urgent"
#: The bus queue that publishers may send to. Its messages have no content: each says that something was dropped.
HINTS = "hints"
#: The bus queue of permits. A topic costs a credit of the namespace for each filter that it asks, a queue for the send alone.
PERMITS = "permits"
#: The storage queue of permits where the host's trigger starts the tasks.
WAKE = "wake"
#: Upper bounds: of SLUICE_WORK_QUEUES, and of the processes that listen for a release by push. Any further one only polls.
MOST_WORK_QUEUES, WAITER_SUBSCRIPTIONS = 100, 16


@dataclass(frozen=True, slots=True)
class CorrelationFilter:
    """Passes a message whose application properties and subject equal the given values."""

    properties: MappingProxyType[str, str | int | bool] = field(default_factory=lambda: MappingProxyType({}))
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """Passes a message for which the expression holds. The local broker takes a named subset and refuses the rest."""

    expression: str


Filter: TypeAlias = CorrelationFilter | SqlFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRules:
    """How a bus queue or a subscription hands messages out."""

    lock: timedelta = GUARD
    max_delivery_count: int = 10
    sessions: bool = False
    dead_letter_expired: bool = False
    #: None: messages live until they are completed.
    time_to_live: timedelta | None = None
    #: The queue or topic that takes the dead letters; None: they stay beside the messages.
    forward_dead_letters: str | None = None

    def __post_init__(self) -> None:
        if not SHORTEST_LOCK <= self.lock <= LONGEST_LOCK:
            raise ValueError(f"lock is {self.lock}, Service Bus takes {SHORTEST_LOCK} to {LONGEST_LOCK}")
        if not 1 <= self.max_delivery_count <= 2000:
            raise ValueError(f"max_delivery_count is {self.max_delivery_count}, expected 1 to 2000")


@dataclass(frozen=True, slots=True)
class BusQueue:
    """A Service Bus queue."""

    name: str
    delivery: DeliveryRules = field(default_factory=DeliveryRules)
    #: None: no duplicate detection. It cannot change after the entity is made.
    duplicate_window: timedelta | None = None
    #: Megabytes that it holds before it refuses messages. None: what Service Bus gives.
    megabytes: int | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of a topic. A message passes if any filter passes it, or if there are no filters."""

    name: str
    filters: tuple[Filter, ...] = ()
    delivery: DeliveryRules = field(default_factory=DeliveryRules)


@dataclass(frozen=True, slots=True)
class Topic:
    """A Service Bus topic."""

    name: str
    subscriptions: tuple[Subscription, ...]
    duplicate_window: timedelta | None = None


@dataclass(frozen=True, slots=True)
class BusEntities:
    """Queues and topics of the Service Bus namespace."""

    queues: tuple[BusQueue, ...] = ()
    topics: tuple[Topic, ...] = ()


@dataclass(frozen=True, slots=True)
class Topology:
    """All entities of the storage account and of the namespace."""

    queues: tuple[str, ...]
    containers: tuple[str, ...]
    tables: tuple[str, ...]
    bus: BusEntities


class Entities(NamedTuple):
    """Entities of one capability. An installation without the capability has none of them."""

    name: str
    #: Storage queues with a trigger. Each gets a poison queue.
    queues: tuple[str, ...] = ()
    containers: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    bus: BusEntities = BusEntities()
    #: Storage queues without a trigger.
    lanes: tuple[str, ...] = ()

    def addresses(self) -> Iterator[str]:
        """Yield each entity by kind and name. Queues and topics of the bus share one kind, as they share their names."""
        for kind, names in (
            ("queue", (*self.queues, *self.lanes)),
            ("container", self.containers),
            ("table", self.tables),
        ):
            yield from (f"{kind} {name!r}" for name in names)
        yield from (f"bus entity {queue.name!r}" for queue in self.bus.queues)
        yield from (f"bus entity {topic.name!r}" for topic in self.bus.topics)


def _kind(kind: str) -> CorrelationFilter:
    return CorrelationFilter(MappingProxyType({"kind": kind}))


def _signals() -> Topic:
    """Return the topic of signals. They are hints: losing one loses no work."""
    signal = DeliveryRules(time_to_live=SIGNAL_LIFE)
    waiters = [Subscription(f"waiters-{n:02}", (_kind("release"),), signal) for n in range(WAITER_SUBSCRIPTIONS)]
    # An instance of 0.3.0 sends its permits to `work`, and receives them there. Nothing else does.
    own = [Subscription(kind, (_kind(kind),), signal) for kind in ("release", "work")]
    return Topic("signals", (*own, *waiters))


def _job_events() -> Topic:
    """Return the topic of events. It is their own, because stored events must not take the space of the signals."""
    # Outsiders receive it: its lock is theirs, and not that of the app's work.
    kept = DeliveryRules(lock=timedelta(minutes=1), time_to_live=timedelta(days=14))
    # An event is sent at least once. Within the window, duplicate detection makes it arrive once.
    return Topic(
        "job-events", (Subscription("completed", (_kind("completed"),), kept),), duplicate_window=timedelta(minutes=10)
    )


def work_queue_names(number: int) -> list[str]:
    """Return the names of `number` work queues."""
    return [f"{_WORK}{n:02}" for n in range(number)]


def work_queue_of(job: str, chunk: int, queues: int, lane: str | None = None) -> str:
    """Return the work queue of a chunk: of a job's lane, or in turns, from a queue of the job's own."""
    # Without the job, all jobs of one chunk would share the first queue.
    return lane or f"{_WORK}{(chunk + crc32(job.encode())) % queues:02}"


def work_queues_of(job: str, chunks: int, queues: int) -> set[str]:
    """Return the work queues of the first chunks of a job."""
    return {work_queue_of(job, chunk, queues) for chunk in range(min(chunks, queues))}


def is_work_queue(queue: str) -> bool:
    """Check whether a queue carries chunks and finish messages."""
    return queue.startswith(_WORK)


def submission_queue(room: str = "") -> str:
    """Return the queue that the publishers of a room drop submissions into. The common room is the empty text."""
    return f"{_SUBMISSIONS}-{room}" if room else _SUBMISSIONS


def room_of_queue(queue: str) -> str:
    """Return the room of a queue of submissions. A message's queue identifies its sender."""
    return queue.removeprefix(_SUBMISSIONS).removeprefix("-")


def is_room_queue(queue: str) -> bool:
    """Check whether a queue takes the submissions of a room beside the common one."""
    return queue.startswith(f"{_SUBMISSIONS}-")


def payload_container(room: str = "") -> str:
    """Return the container that the publishers of a room write payloads into."""
    return f"{_PAYLOADS}-{room}" if room else _PAYLOADS


def rooms(names: Sequence[str]) -> Entities:
    """Return the entities of the publishers who have a queue and a container of their own.

    No function has such a queue as its trigger: hints lead to it, and each tick looks at some.
    """
    return Entities("rooms", lanes=tuple(map(submission_queue, names)), containers=tuple(map(payload_container, names)))


def topology(work_queues: int = 1, entities: Sequence[Entities] = ()) -> Topology:
    """Return every entity of an installation with this many work queues, and these beside the base."""
    return join_entities([_base(work_queues), *entities])


def join_entities(whole: Sequence[Entities]) -> Topology:
    """Return these entities alone. One that is there twice is refused."""
    _check_once(whole)
    triggered = tuple(chain.from_iterable(some.queues for some in whole))
    lanes = tuple(chain.from_iterable(some.lanes for some in whole))
    return Topology(
        queues=(*triggered, *lanes, *(name + POISON_SUFFIX for name in triggered)),
        containers=tuple(chain.from_iterable(some.containers for some in whole)),
        tables=tuple(chain.from_iterable(some.tables for some in whole)),
        bus=BusEntities(
            queues=tuple(chain.from_iterable(some.bus.queues for some in whole)),
            topics=tuple(chain.from_iterable(some.bus.topics for some in whole)),
        ),
    )


def _base(work_queues: int) -> Entities:
    if not 1 <= work_queues <= 100:
        raise ValueError(f"work_queues is {work_queues}, expected 1 to 100")
    return Entities(
        "base",
        # The work queues have triggers, and so poison queues, in instances of 0.3.0 alone.
        queues=(submission_queue(), *work_queue_names(work_queues)),
        # A message of `wake` expires before a host gives it up, so it needs no poison queue.
        lanes=(URGENT, WAKE),
        containers=(payload_container(), PLANS, "results", "outputs", "ids", "gates", "parked", "settings", "permits"),
        tables=tuple(_TABLES.split()),
        bus=BusEntities(
            # An outage of storage must not dead-letter healthy results: settling backs off by itself.
            queues=(
                BusQueue("results", DeliveryRules(max_delivery_count=2000), megabytes=5120),
                BusQueue(HINTS, DeliveryRules(time_to_live=SIGNAL_LIFE)),
                BusQueue(PERMITS, DeliveryRules(time_to_live=SIGNAL_LIFE)),
            ),
            topics=(_signals(), _job_events()),
        ),
    )


def _check_once(entities: Sequence[Entities]) -> None:
    owners = [(address, some.name) for some in entities for address in some.addresses()]
    counts = Counter(address for address, _ in owners)
    for address in counts:
        if counts[address] > 1:
            names = [name for found, name in owners if found == address]
            raise ValueError(
                f"{address} is in the topology {counts[address]} times, by the entities of {', '.join(names)}"
            )
