"""A world for each test, on storage in memory."""

import pytest

from tests.faults.memory.storage import MemoryStorage
from tests.process.world import MemoryWorld


@pytest.fixture
def world():
    """One chunk of ten sales that waits to be processed."""
    return MemoryWorld(MemoryStorage())


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The library's retries wait for nobody here."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.001)
