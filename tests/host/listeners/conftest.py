"""A storage account and a bus for the listener tests."""

import uuid
from itertools import count

import pytest
import pytest_asyncio

from local.azurite.launcher import Azurite
from local.host.host_storage import HostStorage
from local.host.meter import Meter
from local.servicebus.launcher import Broker
from tests.host.listeners.bus_probe import BusProbe


@pytest.fixture(scope="session")
def azurite():
    with Azurite.start() as running:
        yield running


@pytest.fixture
def meter():
    return Meter()


@pytest.fixture
async def storage(azurite, meter):
    storage = HostStorage(azurite.connection_string, meter)
    yield storage
    await storage.close()


@pytest.fixture
async def queue(storage):
    """A queue of the test's own, as a publisher sees it."""
    client = storage.queue(f"work-{uuid.uuid4().hex[:12]}", "test")
    await client.create_queue()
    return client


#: Shorter than the service allows, so that a test sees a lock end or being renewed.
LOCK_SECONDS = 2.0


@pytest.fixture(scope="session")
def broker():
    with Broker.start("tests.host.listeners.bus_topology:bus", lock_seconds=LOCK_SECONDS) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bus(broker):
    """The bus as its publishers and operators see it."""
    probe = BusProbe(broker.connection_string)
    yield probe
    await probe.close()


@pytest.fixture(scope="session")
def entities():
    """Numbers of entities that no other test has used."""
    return count()


@pytest.fixture
def plain(entities):
    return f"plain-{next(entities)}"


@pytest.fixture
def ordered(entities):
    return f"ordered-{next(entities)}"


@pytest.fixture
def topic(entities):
    return f"topic-{next(entities)}"
