"""Registration over the run's Azurite and a broker with its entities: an account of its own for each test."""

from contextlib import contextmanager

import pytest
from servicebus_local.launcher import Broker

from shared.settings import Settings
from tests.faults.azurite_storage import AzuriteAccounts, start
from tests.faults.memory.storage import MemoryStorages
from tests.registration.world import World
from tools.local.stack import bus_entities, settings_for

NO_BUS = "Endpoint=sb://nowhere/;SharedAccessKeyName=a;SharedAccessKey=b"
CHOICE = {"SLUICE_CAPABILITIES": "registration", "SLUICE_SEAT_LANES": "1", "SLUICE_RESERVATION_SECONDS": "900"}


@contextmanager
def installation():
    """Run an installation that nobody has used, with an Azurite of its own."""
    with start() as azurite, installed(AzuriteAccounts(azurite.ports)) as made:
        yield made


@contextmanager
def installed(accounts):
    """Run an installation that nobody has used, on an account of its own."""
    parsed = Settings.parse(settings_for("UseDevelopmentStorage=true", NO_BUS) | CHOICE)
    storage = accounts.fresh(parsed.entities)
    with Broker.start(bus_entities(parsed), lock_seconds=300) as broker:
        settings = settings_for(storage.connection_string, broker.connection_string) | CHOICE
        with World(Settings.parse(settings), settings, None if storage.is_real else storage) as made:
            yield made


@pytest.fixture(scope="session")
def accounts():
    """Accounts that nobody has used, all on one Azurite."""
    with start() as azurite:
        yield AzuriteAccounts(azurite.ports)


@pytest.fixture
def on_azurite(accounts):
    """An installation that nobody has used."""
    with installed(accounts) as made:
        yield made


@pytest.fixture
def in_memory():
    """The same on storage in memory, which no other process reaches."""
    with installed(MemoryStorages()) as made:
        yield made


@pytest.fixture
def world(on_azurite):
    """The installation of a test that does not choose."""
    return on_azurite
