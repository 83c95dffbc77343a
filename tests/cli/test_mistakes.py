"""Forty mistakes in an installation, each seeded into a real account and a real bus: found, and blamed on nothing else.

Mistakes of different entities share a run. What is found there must be just these, each by its name and its words.
"""

import json
import re
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from azure.data.tables import TableServiceClient
from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient
from servicebus_local.entities import CorrelationFilter, Namespace

from capabilities.registration.entities import registration
from shared.azure import Connections
from shared.settings import Settings
from shared.topology import topology
from tests.forked import ForkedBroker
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision
from tools.local.stack import bus_entities, settings_for

WHOLE = topology(entities=[registration()])
ON = {"SLUICE_CAPABILITIES": "registration"}
NOWHERE = "127.0.0.1:9"
#: What azure.servicebus finds where nothing listens.
NO_BUS = f"Endpoint=sb://{NOWHERE};SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"


@pytest.fixture(scope="module")
def account():
    """An account with every entity of an installation with registration."""
    with Azurite.start() as running:
        provision(running.connection_string, WHOLE)
        yield running


def entities():
    """Return the entities of its bus."""
    return bus_entities(Settings.parse(settings_for("UseDevelopmentStorage=true", NO_BUS) | ON))


@pytest.fixture(scope="module")
def right(account):
    """The settings of an installation without a mistake."""
    with ForkedBroker.start(entities()) as bus:
        yield settings_for(account.connection_string, bus.connection_string) | ON


@pytest.fixture
def doctor(sluice):
    """Run `sluice doctor`, and return what it blames with its words."""

    def run(settings):
        done = sluice("doctor", "--json", settings=settings)
        found = {one["name"]: one["problem"] for one in json.loads(done.stdout)["findings"] if one["problem"]}
        assert done.returncode == bool(found)
        return found

    return run


def check(found, blamed):
    """Whether just these are blamed, each with its words."""
    assert set(found) == set(blamed)
    assert {name: words for name, words in blamed.items() if words not in found[name]} == {}


def changed(whole, **changes):
    """Return the entities with some of them changed by their names, or left out where the change is None."""

    def apply(name, one):
        change = changes.pop(name, lambda same: same)
        return change and change(one)

    def below(topic):
        changed = (apply(f"{topic.name}/{one.name}", one) for one in topic.subscriptions)
        return replace(topic, subscriptions=tuple(filter(None, changed)))

    queues = tuple(filter(None, (apply(one.name, one) for one in whole.queues)))
    topics = tuple(below(apply(one.name, one)) for one in whole.topics)
    assert changes == {}
    return Namespace(queues, topics)


def delivered(**rules):
    """Return a change of how an entity delivers."""
    return lambda one: replace(one, delivery=replace(one.delivery, **rules))


def alike(one):
    """Return the entity without duplicate detection."""
    return replace(one, duplicate_window=None)


def passing(*filters):
    """Return a change of a subscription's filters."""
    return lambda one: replace(one, filters=filters, names=())


MANY = {
    "results": (delivered(lock=timedelta(seconds=5)), "lock: 5 s, deployed is 18 s, so work that takes longer"),
    "timeouts": (alike, "duplicate detection: off, deployed is over 600 s, so a message that is sent twice"),
    "job-events": (alike, "duplicate detection: off"),
    "seat-commands-00": (delivered(forward_dead_letters=None), "dead letters go to: nowhere, deployed is dead"),
    "seat-commands-01": (delivered(sessions=False), "sessions: off, deployed is on"),
    "order-events/orders": (delivered(dead_letter_expired=False), "what expires is gone without a trace"),
    "seats-events/processes": (delivered(max_delivery_count=1), "deliveries: 1, deployed is"),
    "signals/release": (passing(), "everything passes, deployed is kind=release, so its receiver gets messages"),
    "signals/work": (
        passing(CorrelationFilter({"kind": "x"})),
        "kind=x, deployed is kind=work, so messages that it is",
    ),
}
BUS = {
    "nine entities": MANY,
    "deliveries, lives, a subscription that is missing": {
        "results": (delivered(max_delivery_count=1), "so an outage makes dead letters of healthy messages"),
        "signals/release": (delivered(time_to_live=timedelta(seconds=1)), "time to live: 1 s, deployed is 600 s"),
        "signals/work": (None, "does not exist"),
    },
    "a life": {
        "results": (delivered(time_to_live=timedelta(minutes=1)), "time to live: 60 s, deployed is without end")
    },
    "sessions": {"results": (delivered(sessions=True), "sessions: on, deployed is off")},
    "a queue that is missing": {"results": (None, "does not exist")},
}


def test_an_installation_without_a_mistake_is_blamed_for_nothing(doctor, right):
    """Every capability that has entities is on."""
    assert doctor(right) == {}


@pytest.mark.parametrize("seeded", BUS.values(), ids=BUS)
def test_an_entity_of_the_bus_that_is_set_otherwise(doctor, right, seeded):
    """By its own name, with what follows and the command that mends it."""
    with ForkedBroker.start(changed(entities(), **{name: change for name, (change, _) in seeded.items()})) as bus:
        found = doctor({**right, "SluiceBus": bus.connection_string})
    check(found, {name: words for name, (_, words) in seeded.items()})
    assert all("`" in words for words in found.values())


DEAD = {"dead": "does not exist"}


def test_the_queue_of_dead_letters_is_missing(doctor, right):
    """A bus keeps the entities that forward there."""
    with ForkedBroker.start(entities()) as bus:
        settings = {**right, "SluiceBus": bus.connection_string}
        with Connections.parse(settings) as connections, connections.bus_administration() as admin:
            admin.delete_queue("dead")
        check(doctor(settings), DEAD)


PLACES = {
    **dict.fromkeys(("work-00", "submissions-poison", "gates", "parked"), "does not exist"),
    "outputs": "is public, so anyone reads its blobs",
}


@contextmanager
def without(connection):
    """Have a queue of work, a poison queue, a container and a table missing, and a container public."""
    with (
        QueueServiceClient.from_connection_string(connection) as queues,
        BlobServiceClient.from_connection_string(connection) as blobs,
        TableServiceClient.from_connection_string(connection) as tables,
    ):
        queues.delete_queue("work-00")
        queues.delete_queue("submissions-poison")
        blobs.delete_container("gates")
        blobs.get_container_client("outputs").set_container_access_policy({}, public_access="container")
        tables.delete_table("parked")
        try:
            yield
        finally:
            queues.create_queue("work-00")
            queues.create_queue("submissions-poison")
            blobs.create_container("gates")
            blobs.get_container_client("outputs").set_container_access_policy({})
            tables.create_table("parked")


def test_places_of_storage_that_are_missing_or_public(doctor, right):
    """Five mistakes."""
    with without(right["SluiceStorage"]):
        found = doctor(right)
    check(found, PLACES)


def with_host(name, text):
    """Return an override of host.json."""
    return {f"AzureFunctionsJobHost__extensions__{name}": text}


SETTINGS = {
    "a schedule of words": (
        {"SLUICE_TICK_SCHEDULE": "every minute"},
        {"SLUICE_TICK_SCHEDULE": "is 'every minute': it has 2 fields"},
    ),
    "a schedule of five fields": (
        {"SLUICE_TICK_SCHEDULE": "* * * * *"},
        {"SLUICE_TICK_SCHEDULE": "it has 5 fields, expected second, minute, hour"},
    ),
    "a workload that does not import": (
        {"SLUICE_WORKLOADS": "own.nothing:Here"},
        {"SLUICE_WORKLOADS": "the app does not start: cannot load workload 'own.nothing:Here'"},
    ),
    "the host's storage": (
        {"AzureWebJobsStorage": f"AccountName=a;AccountKey=AAAA;BlobEndpoint=http://{NOWHERE}/a;"},
        {"AzureWebJobsStorage": "the host's own storage does not answer, so no timer and no trigger runs"},
    ),
    "batches and prefetched messages": (
        with_host("queues__batchSize", "32") | with_host("serviceBus__prefetchCount", "200"),
        {
            "PYTHON_THREADPOOL_THREAD_COUNT": "is 24, but an instance takes 40 messages at a time",
            "extensions.servicebus.prefetchCount": "locks run out while messages wait",
        },
    ),
    "an encoding": (
        with_host("queues__messageEncoding", "base64"),
        {"extensions.queues.messageEncoding": "and no job begins: remove AzureFunctionsJobHost__extensions__queues__"},
    ),
    "a disabled tick": (
        {"AzureWebJobs.tick.Disabled": "true"},
        {"tick": "so nothing that is overdue is found, and nothing old is removed: remove AzureWebJobs.tick.Disabled"},
    ),
    "one thread": (
        {"PYTHON_THREADPOOL_THREAD_COUNT": "1"},
        {"PYTHON_THREADPOOL_THREAD_COUNT": "is 1, but an instance takes 24 messages at a time"},
    ),
    "fewer work queues than the settings say": (
        {"SLUICE_WORK_QUEUES": "3"},
        dict.fromkeys(("work-01", "work-02", "work-01-poison", "work-02-poison"), "does not exist"),
    ),
    "a room that was not made": (
        {"SLUICE_ROOMS": "team-a"},
        dict.fromkeys(("submissions-team-a", "payloads-team-a"), "does not exist"),
    ),
}


@pytest.mark.parametrize(("settings", "blamed"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_that_is_wrong(doctor, right, settings, blamed):
    """By the setting, the function or the value of host.json."""
    check(doctor(right | settings), blamed)


#: What is said of all storage, with another key and with its port closed, and of the whole bus with its port closed.
STORAGE, ON_BUS = ("refuses the key", "does not answer"), "does not answer"


def test_services_that_refuse_or_do_not_answer(doctor, right):
    """All of a service alike, for none of it is seen; nothing of another one."""
    of_storage = {*WHOLE.queues, *WHOLE.containers, *WHOLE.tables}
    key = re.sub("AccountKey=[^;]*", "AccountKey=d3Jvbmc=", right["SluiceStorage"])
    closed = re.sub(r"127\.0\.0\.1:\d+", NOWHERE, right["SluiceStorage"])
    for storage, said in zip((key, closed), STORAGE, strict=True):
        found = doctor({**right, "SluiceStorage": storage})
        assert {name for name in found if found[name].startswith(said)} == set(found) == of_storage
    found = doctor({**right, "SluiceBus": NO_BUS})
    on_bus = {
        *(one.name for one in WHOLE.bus.queues),
        *(f"{topic.name}/{one.name}" for topic in WHOLE.bus.topics for one in topic.subscriptions),
    }
    assert {name for name in found if ON_BUS in found[name]} == set(found) == on_bus


def test_a_queue_endpoint_that_is_the_one_of_blobs(doctor, right):
    """The queues alone answer with an error."""
    (blobs,) = re.findall("BlobEndpoint=([^;]*)", right["SluiceStorage"])
    found = doctor(
        {**right, "SluiceStorage": re.sub("QueueEndpoint=[^;]*", f"QueueEndpoint={blobs}", right["SluiceStorage"])}
    )
    assert set(found) == {*WHOLE.queues}


STOPPING = (
    ({"SluiceBus": ""}, "SluiceBus is missing"),
    ({"SluiceStorage": "nonsense"}, "SluiceStorage is not a connection string"),
    ({"SLUICE_WORKQUEUES": "3"}, "SLUICE_WORKQUEUES is no setting: did you mean SLUICE_WORK_QUEUES?"),
    ({"SLUICE_DEQUEUE": "pull"}, "SLUICE_DEQUEUE is 'pull', expected one of trigger, push"),
    ({"SLUICE_RETENTION_DAYS": "0"}, "SLUICE_RETENTION_DAYS is '0', expected a whole number"),
)


@pytest.mark.parametrize(("settings", "said"), STOPPING)
def test_settings_that_stop_the_start(sluice, right, settings, said):
    """One line with the setting's name, before anything is asked."""
    done = sluice("doctor", settings=right | settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"sluice: {said}")


def test_the_page_has_every_mistake():
    """Forty, of which nineteen were found before; written by `python -m tests.cli.mistakes`."""
    from tests.cli import mistakes  # noqa: PLC0415 - it reads the mistakes of this module

    found = list(mistakes.mistakes())
    assert (len(found), sum(one.was_found for one in found)) == (40, 19)
    assert mistakes.PAGE.read_text() == mistakes.render()
