"""Checks that every entity of the topology exists and responds, with one finding per entity."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from azure.core.exceptions import AzureError
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
)

from shared.azure import Connections, is_missing, is_refused
from shared.pipeline import Unread, list_unread
from shared.settings import Settings
from shared.topology import BusEntities, DeliveryRules, Topology, is_work_queue, topology

#: A person waits for the answer: one quick retry, no more.
RETRIES = 1
#: The client takes half a second to open a receiver and as long to close it.
BUS_LOOKS_AT_ONCE = 8
OWN_SESSION = "sluice-doctor"
NO_ANSWER = "does not answer"
REFUSED = "refuses your login: run `az login`, and have an owner give you the role (docs/security.md)"


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked entity, with an empty `problem` if it is right."""

    kind: str
    name: str
    problem: str = ""


def examine(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding per entity. Raise SettingsError first if the settings are wrong."""
    parsed = Settings.parse(settings)
    wanted = topology(parsed.work_queues, parsed.parts)
    if parsed.console.refusal:
        yield Finding("function", "console", f"is left out, and the app runs without it: {parsed.console.refusal}")
    with Connections.parse(settings, is_person=True, retries=RETRIES) as connections:
        yield from _storage(connections, wanted, parsed)
        yield from _bus(connections, wanted)


def _storage(connections: Connections, wanted: Topology, settings: Settings) -> Iterator[Finding]:
    for name in wanted.queues:
        yield _look("queue", name, connections.queues.get_queue_client(name).get_queue_properties)
    yield from _unread(connections, settings)
    for name in wanted.containers:
        yield _look("container", name, connections.blobs.get_container_client(name).get_container_properties)
    for name in wanted.tables:
        yield _look("table", name, partial(_read_table, connections.tables, name))


def _unread(connections: Connections, settings: Settings) -> Iterator[Finding]:
    found: list[Unread] = []
    looked = _look(
        "queue", "others", lambda: found.extend(list_unread(connections.queues, settings.work_queues, settings.rooms))
    )
    if looked.problem:
        yield looked
    for one in found:
        if is_work_queue(one.queue):
            yield Finding(
                "queue",
                one.queue,
                f"has {one.messages} messages that the app does not read, for SLUICE_WORK_QUEUES is {settings.work_queues}: "
                "raise it until the queue is empty, or delete the queue once its jobs have ended",
            )


def _bus(connections: Connections, wanted: Topology) -> Iterator[Finding]:
    with connections.bus_client() as bus:
        first, *rest = _peeks(bus, wanted.bus)
        found = _look(*first)
        yield found
        if found.problem.startswith(NO_ANSWER):
            # One answer stands for all: each further attempt would wait as long again.
            yield from (Finding(kind, name, found.problem) for kind, name, _ in rest)
            return
        with ThreadPoolExecutor(BUS_LOOKS_AT_ONCE) as pool:
            yield from pool.map(lambda one: _look(*one), rest)


def _peeks(bus: ServiceBusClient, wanted: BusEntities) -> Iterator[tuple[str, str, Callable[[], object]]]:
    for queue in wanted.queues:
        receiver = partial(bus.get_queue_receiver, queue.name, session_id=_session(queue.delivery))
        yield "bus queue", queue.name, partial(_peek, receiver)
    for topic in wanted.topics:
        for one in topic.subscriptions:
            receiver = partial(bus.get_subscription_receiver, topic.name, one.name, session_id=_session(one.delivery))
            yield "subscription", f"{topic.name}/{one.name}", partial(_peek, receiver)


def _session(delivery: DeliveryRules) -> str | None:
    # Only a receiver of one session may look into an entity with sessions. Nothing is sent to this one.
    return OWN_SESSION if delivery.sessions else None


def _peek(receiver: Callable[[], ServiceBusReceiver]) -> None:
    with receiver() as opened:
        opened.peek_messages(1)


def _read_table(tables: TableServiceClient, name: str) -> None:
    next(tables.get_table_client(name).query_entities("PartitionKey eq ''", results_per_page=1).by_page())


def _look(kind: str, name: str, ask: Callable[[], object]) -> Finding:
    try:
        ask()
    except AzureError as error:
        if is_missing(error):
            return Finding(kind, name, "does not exist: deploy it (`azd provision`), or locally run `make up`")
        refused = is_refused(error) or isinstance(error, (ServiceBusAuthenticationError, ServiceBusAuthorizationError))
        return Finding(kind, name, f"{REFUSED if refused else NO_ANSWER}: {_first_line(error)}")
    return Finding(kind, name)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
