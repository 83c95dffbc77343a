"""A broker for the whole run, another whose locks end within a second, and clients of both kinds."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from local.servicebus.launcher import Broker
from tests.broker.clients import Clients
from tests.broker.topology import COPIES

TOPOLOGY = "tests.broker.topology:bus"


@pytest.fixture(scope="session")
def broker():
    """The broker that nearly every test shares."""
    with Broker.start(TOPOLOGY) as running:
        yield running


@pytest.fixture(scope="session")
def brisk_broker():
    """A broker whose locks are shorter than Service Bus allows, so that tests need not wait for them."""
    with Broker.start(TOPOLOGY, lock_seconds=1.0) as running:
        yield running


@pytest.fixture(scope="session")
def closing(broker, brisk_broker):
    """Threads that close what tests leave open."""
    with ThreadPoolExecutor(32) as pool:
        yield pool


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
        assert number < COPIES, f"tests/broker/topology.py has too few entities of kind {kind}"
        return f"{kind}-{number:02}"

    return take_one


@pytest.fixture(params=["sync", "aio"])
async def bus(request, broker, closing):
    """Clients of the shared broker."""
    clients = Clients(broker.connection_string, request.param, closing)
    yield clients
    await clients.close()


@pytest.fixture(params=["sync", "aio"])
async def brisk(request, brisk_broker, closing):
    """Clients of the broker with short locks."""
    clients = Clients(brisk_broker.connection_string, request.param, closing)
    yield clients
    await clients.close()
