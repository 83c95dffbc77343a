"""Checks that every entity of the topology exists and responds, with one finding per entity."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from azure.core.exceptions import AzureError
from azure.data.tables import TableServiceClient
from azure.storage.blob import ContainerProperties

from shared.azure import (
    BUS_CONNECTION,
    STORAGE_CONNECTION,
    Connections,
    date_of,
    find_connection,
    is_login_refused,
    is_missing,
    is_silent,
    peek,
)
from shared.operating import find_immutable, read_keeping
from shared.own import FILE, Laid
from shared.pipeline import Unread, list_unread
from shared.settings import Settings
from shared.topology import BusEntities, DeliveryRules, Topology, is_work_queue, topology
from tools.conformance import first_line

#: A person waits for the answer: one quick retry, no more.
RETRIES = 1
#: The client takes half a second to open a receiver and as long to close it.
BUS_LOOKS_AT_ONCE = 8
OWN_SESSION = "sluice-doctor"
#: The kinds of the findings about the bus, but for topics.
BUS_KINDS = frozenset({"bus queue", "subscription"})
#: A clock that is further off is a fault.
MOST_CLOCK_ERROR = timedelta(seconds=60)


class State(StrEnum):
    """The result of the check of one entity."""

    OK = "ok"
    MISSING = "missing"
    #: It answers, but not this login or this key.
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    #: It answers with another error, and the error is its own.
    FAULTY = "faulty"
    #: It has messages, and the app does not read it.
    UNREAD = "unread"
    #: The app leaves it out.
    LEFT_OUT = "left out"
    #: A setting of own/settings.json that the deployment does not know.
    UNDEPLOYED = "undeployed"
    #: It answers, and is set otherwise than it was deployed, or than Sluice relies on.
    DIFFERS = "differs"
    #: This login, or this place, does not see it.
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked entity, with an empty `problem` if it is right."""

    kind: str
    name: str
    problem: str = ""
    state: State = State.OK
    #: What a person may want to know although it is right.
    note: str = ""


def examine(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Yield a finding per entity. Raise SettingsError first if the settings are wrong."""
    parsed = Settings.parse(settings)
    wanted = topology(parsed.work_queues, parsed.entities)
    for name, why in parsed.left_out.items():
        problem = f"is left out, and the app runs without it: {why}"
        yield Finding("function", name, problem, State.LEFT_OUT)
    with Connections.parse(settings, is_person=True, retries=RETRIES) as connections:
        yield from _storage(connections, wanted, parsed, how_to_log_in(STORAGE_CONNECTION, settings))
        yield from _bus(connections, wanted, how_to_log_in(BUS_CONNECTION, settings))


def compare_own(laid: Laid) -> Iterator[Finding]:
    """Yield a finding for each setting of own/settings.json that the environment overrides."""
    for name, both in laid.overridden.items():
        said = f"is {both.environment!r} in the environment, which counts, and {both.file!r} in {FILE}"
        if name in laid.undeployed:
            problem = f"{said}: run `azd provision`, or start `make up` anew"
            yield Finding("setting", name, problem, State.UNDEPLOYED)
        else:
            yield Finding("setting", name, note=said)


def how_to_log_in(name: str, settings: Mapping[str, str]) -> str:
    """Return the remedy for a refusal, by how this connection logs in."""
    by = find_connection(name, settings, is_person=True).connection
    if isinstance(by, str):
        what = "signature" if "SharedAccessSignature=" in by else "key"
        return (
            f"refuses the {what} in {name}: copy the whole connection string again (`make up` prints that of its stack)"
        )
    if by is not None and by.login.client_secret:
        return (
            f"refuses the application of {name}: check {name}__tenantId, {name}__clientId and {name}__clientSecret, and "
            "have an owner give it the role (docs/security.md)"
        )
    return "refuses your login: run `az login`, and have an owner give you the role (docs/security.md)"


def _storage(connections: Connections, wanted: Topology, settings: Settings, log_in: str) -> Iterator[Finding]:
    replies: list[datetime] = []

    def note_time(reply: Any) -> None:
        if (moment := date_of(reply)) is not None:
            replies.append(moment)

    queues = []
    for name in wanted.queues:
        ask = partial(connections.queues.get_queue_client(name).get_queue_properties, raw_response_hook=note_time)
        queues.append(_look("queue", name, ask, log_in))
    yield from queues
    if replies:
        yield judge_clock(datetime.now(UTC), replies[-1])
    # Another service at their address would answer with something that is no list.
    if any(one.state in {State.OK, State.MISSING} for one in queues):
        yield from _unread(connections, settings, log_in)
    containers = [_container(connections, name, log_in) for name in wanted.containers]
    yield from containers
    if any(one.state is State.OK for one in containers):
        yield _kept(connections)
    for name in wanted.tables:
        yield _look("table", name, partial(_read_table, connections.tables, name), log_in)


def _container(connections: Connections, name: str, log_in: str) -> Finding:
    asked: list[ContainerProperties] = []

    def ask() -> None:
        asked.append(connections.blobs.get_container_client(name).get_container_properties())

    found = _look("container", name, ask, log_in)
    if immutable := [words for one in asked for words in find_immutable(one)]:
        problem = f"{' and '.join(immutable)}: retention and `sluice jobs erase` remove nothing there"
        return replace(found, problem=problem, state=State.DIFFERS)
    if not any(one.public_access for one in asked):
        return found
    problem = (
        "is public, so anyone reads its blobs without a login: "
        f"`az storage container set-permission --name {name} --public-access off`"
    )
    return replace(found, problem=problem, state=State.DIFFERS)


def _kept(connections: Connections) -> Finding:
    """Say what stands against erasing a job: it is as it was deployed, so it is no fault."""
    words = read_keeping(connections.blobs).words(datetime.now(UTC))
    return Finding("account", "removed blobs", note="; ".join(words) or "are gone at once")


def judge_clock(now: datetime, storage: datetime) -> Finding:
    """Return the finding about this machine's clock, beside the time of a reply of storage."""
    error = now - storage
    if abs(error) <= MOST_CLOCK_ERROR:
        return Finding("clock", "of this machine")
    said = f"is {abs(error).total_seconds():.0f} s {'ahead of' if error > timedelta(0) else 'behind'} storage"
    problem = f"{said}, so times that you type mean other moments, and from 15 min on logins are refused: set it right"
    return Finding("clock", "of this machine", problem, State.DIFFERS)


def _unread(connections: Connections, settings: Settings, log_in: str) -> Iterator[Finding]:
    found: list[Unread] = []
    looked = _look(
        "queue",
        "others",
        lambda: found.extend(list_unread(connections.queues, settings.work_queues, settings.rooms)),
        log_in,
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
                State.UNREAD,
            )


def _bus(connections: Connections, wanted: Topology, log_in: str) -> Iterator[Finding]:
    with connections.bus_client() as bus:
        first, *rest = _peeks(partial(peek, bus), wanted.bus)
        found = _look(*first, log_in)
        yield found
        if found.state is State.UNREACHABLE:
            # The namespace is out of reach, so each further attempt would wait as long again.
            yield from (Finding(kind, name, found.problem, found.state) for kind, name, _ in rest)
            return
        with ThreadPoolExecutor(BUS_LOOKS_AT_ONCE) as pool:
            yield from pool.map(lambda one: _look(one[0], one[1], one[2], log_in), rest)


def _peeks(look: Callable[..., object], wanted: BusEntities) -> Iterator[tuple[str, str, Callable[[], object]]]:
    for queue in wanted.queues:
        yield "bus queue", queue.name, partial(look, queue.name, session=_session(queue.delivery))
    for topic in wanted.topics:
        for one in topic.subscriptions:
            ask = partial(look, topic.name, one.name, session=_session(one.delivery))
            yield "subscription", f"{topic.name}/{one.name}", ask


def _session(delivery: DeliveryRules) -> str | None:
    # Only a receiver of one session may look into an entity with sessions. Nothing is sent to this one.
    return OWN_SESSION if delivery.sessions else None


def _read_table(tables: TableServiceClient, name: str) -> None:
    next(tables.get_table_client(name).query_entities("PartitionKey eq ''", results_per_page=1).by_page())


def _look(kind: str, name: str, ask: Callable[[], object], log_in: str) -> Finding:
    try:
        ask()
    except AzureError as error:
        state = _state_of(error)
        return Finding(kind, name, _in_words(state, first_line(error), log_in), state)
    return Finding(kind, name)


def _state_of(error: AzureError) -> State:
    if is_missing(error):
        return State.MISSING
    if is_login_refused(error):
        return State.REFUSED
    return State.UNREACHABLE if is_silent(error) else State.FAULTY


def _in_words(state: State, said: str, log_in: str) -> str:
    if state is State.MISSING:
        return "does not exist: `sluice provision` makes it; in Azure, `azd provision` does"
    return f"{log_in if state is State.REFUSED else _SAID[state]}: {said}"


_SAID = {State.UNREACHABLE: "does not answer", State.FAULTY: "answers with an error"}
