"""A payload container of its own for every test that asks for one."""

import uuid

import pytest
from azure.storage.blob import BlobServiceClient

from shared.payload import PayloadStore, PayloadStores


@pytest.fixture
def container(azurite):
    """An empty container, counted from nothing."""
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        made = service.create_container(f"payloads-{uuid.uuid4().hex[:12]}")
        yield made
        made.delete_container()


@pytest.fixture
def stores(container):
    """The stores of an installation whose containers are all this one."""
    return PayloadStores(lambda _name: container)


@pytest.fixture
def store(container):
    """The store over it."""
    return PayloadStore(container)
