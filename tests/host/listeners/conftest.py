"""A storage account for the listener tests."""

import uuid

import pytest

from local.azurite.launcher import Azurite
from local.host.host_storage import HostStorage
from local.host.meter import Meter


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
