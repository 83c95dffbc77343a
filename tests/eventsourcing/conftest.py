"""Homes of both kinds, empty, under one fixture."""

import uuid

import pytest

from shared.azure import Connections
from shared.processes import MementoStore, TableHomes
from tests.eventsourcing.memory_homes import MemoryHomes


@pytest.fixture(scope="session")
def connections(azurite):
    """The storage of this run."""
    with Connections(azurite.connection_string) as made:
        yield made


@pytest.fixture
def table(connections):
    """A table for homes."""
    return connections.tables.create_table(f"homes{uuid.uuid4().hex[:12]}")


@pytest.fixture
def container(connections):
    """A container for large mementos."""
    return connections.blobs.create_container(f"mementos-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def table_homes(table, container):
    """Homes in a table of their own, read in small pages."""
    return TableHomes(table, MementoStore(container), page=3)


@pytest.fixture(params=["memory", "table"])
def homes(request):
    """An event store that holds nothing yet."""
    return MemoryHomes(page=3) if request.param == "memory" else request.getfixturevalue("table_homes")
