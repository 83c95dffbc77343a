"""A bus for the listener tests, and what one listener needs."""

import asyncio
import uuid
from contextlib import asynccontextmanager
from itertools import count

import pytest
import pytest_asyncio
from functions_local_host.host_storage import HostStorage
from functions_local_host.meter import Meter
from host_tests.listeners.bus_probe import BusProbe
from host_tests.listeners.bus_topology import LOCK_SECONDS, bus as bus_of_the_tests
from host_tests.listeners.recording import DEADLINE
from servicebus_local.launcher import Broker


@pytest.fixture
def meter():
    """Counts what one test asks of storage."""
    return Meter()


@pytest.fixture
async def storage(azurite, meter):
    """The storage clients of one listener."""
    storage = HostStorage(azurite.connection_string, meter)
    yield storage
    await storage.close()


@pytest.fixture
async def queue(storage):
    """A queue of the test's own, as a publisher sees it."""
    client = storage.queue(f"work-{uuid.uuid4().hex[:12]}", "test")
    await client.create_queue()
    return client


@pytest.fixture(scope="session")
def broker():
    """One broker for all listener tests; a message that was left locked stays so longer than any test."""
    with Broker.start(bus_of_the_tests()) as running:
        yield running


@pytest.fixture(scope="session")
def brisk_broker():
    """A broker for the tests that see a lock end or being renewed."""
    with Broker.start(bus_of_the_tests(), lock_seconds=LOCK_SECONDS) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bus(broker):
    """The bus as its publishers and operators see it."""
    probe = BusProbe(broker.connection_string)
    yield probe
    await probe.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def brisk_bus(brisk_broker):
    """The same of the bus with short locks."""
    probe = BusProbe(brisk_broker.connection_string)
    yield probe
    await probe.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def listening():
    """Run listeners for a while. Their ends, a second or two of the SDK's, are awaited after the last test."""
    tasks = []

    @asynccontextmanager
    async def listen(*listeners):
        tasks.extend(asyncio.create_task(listener.run()) for listener in listeners)
        try:
            yield
        finally:
            for listener in listeners:
                listener.stop()

    yield listen
    async with asyncio.timeout(DEADLINE):
        await asyncio.gather(*tasks)


@pytest.fixture(scope="session")
def entities():
    """Numbers of entities that no other test has used."""
    return count()


@pytest.fixture
def plain(entities):
    """A bus queue that no other test has used."""
    return f"plain-{next(entities)}"


@pytest.fixture
def ordered(entities):
    """A bus queue with sessions that no other test has used."""
    return f"ordered-{next(entities)}"


@pytest.fixture
def topic(entities):
    """A topic that no other test has used."""
    return f"topic-{next(entities)}"
