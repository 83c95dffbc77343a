"""Agendas on the run's Azurite, one table for each test."""

import itertools

import pytest

from shared.azure.connections import Connections
from shared.processes import Agenda

_names = itertools.count(1)


@pytest.fixture(scope="session")
def connections(azurite):
    """Connections to Azurite."""
    with Connections(azurite.connection_string) as made:
        yield made


@pytest.fixture
def table(connections):
    """An empty table."""
    return connections.tables.create_table(f"agenda{next(_names)}")


@pytest.fixture
def agenda(table):
    """An empty agenda."""
    return Agenda(table)
