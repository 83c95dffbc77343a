"""A world for each test, on the run's Azurite."""

import pytest

from tests.process.world import World


@pytest.fixture
def world(provisioned):
    """One chunk of ten sales that waits to be processed."""
    return World(provisioned)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The library's retries wait for nobody here."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.001)
