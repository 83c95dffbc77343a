"""A broker for the whole run, another whose locks end within seconds, and clients of both kinds."""

import asyncio
import inspect
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import pytest_asyncio
from broker_tests.topology import BRISK_LOCK, COPIES, TOPICS, bus
from servicebus_local.launcher import Broker

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Run the tests of this folder on one event loop, on which what they leave open is closed behind them."""
    for item in items:
        if HERE in item.path.parents and inspect.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(scope="session")
def broker():
    """The broker that nearly every test shares."""
    with Broker.start(bus()) as running:
        yield running


@pytest.fixture(scope="session")
def brisk_broker():
    """A broker whose locks are shorter than Service Bus allows, so that tests wait less for their end."""
    with Broker.start(bus(), lock_seconds=BRISK_LOCK) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def closing(broker, brisk_broker):
    """Closes in the background what tests leave open: a client takes a second to close, and there are hundreds."""
    # Sync clients run on threads, and one test opens thirty of them.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
    tasks = []
    yield tasks
    await asyncio.gather(*tasks)


@pytest.fixture(scope="session")
def used():
    """How many entities of each kind are taken."""
    return Counter()


@pytest.fixture
def fresh(used):
    """A function that names an entity no other test has."""

    def take_one(kind):
        number = used[kind]
        used[kind] += 1
        assert number < (TOPICS if kind.startswith("topic") else COPIES), (
            f"tools/packages/servicebus-local/tests/broker_tests/topology.py has too few entities of kind {kind}"
        )
        return f"{kind}-{number:02}"

    return take_one
