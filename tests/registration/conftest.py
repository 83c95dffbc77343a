"""Registration over the run's Azurite and a broker with its entities: an account of its own for each test."""

from contextlib import contextmanager

import pytest

from shared.azure import Connections
from shared.settings import Settings
from tests.faults.azurite_storage import AzuriteAccounts, start
from tests.faults.memory.storage import MemoryStorage
from tests.forked import ForkedBroker
from tests.registration.world import World
from tools.cli import options
from tools.local.stack import bus_entities, settings_for

NO_BUS = "Endpoint=sb://nowhere/;SharedAccessKeyName=a;SharedAccessKey=b"
CHOICE = {"SLUICE_CAPABILITIES": "registration", "SLUICE_SEAT_LANES": "1", "SLUICE_RESERVATION_SECONDS": "900"}


@contextmanager
def installation():
    """Run an installation that nobody has used, with an Azurite of its own."""
    with start() as azurite, installed(AzuriteAccounts(azurite.ports).fresh) as made:
        yield made


@contextmanager
def installed(fresh):
    """Run an installation that nobody has used, on storage of its own."""
    parsed = Settings.parse(settings_for("UseDevelopmentStorage=true", NO_BUS) | CHOICE)
    storage = fresh(parsed.entities)
    with ForkedBroker.start(bus_entities(parsed), lock_seconds=300) as broker:
        settings = settings_for(storage.connection_string, broker.connection_string) | CHOICE
        with World(Settings.parse(settings), settings) as made:
            yield made


@pytest.fixture(scope="session")
def accounts():
    """Accounts that nobody has used, all on one Azurite."""
    with start() as azurite:
        yield AzuriteAccounts(azurite.ports)


@pytest.fixture
def on_azurite(accounts):
    """An installation that nobody has used."""
    with installed(accounts.fresh) as made:
        yield made


@pytest.fixture
def world():
    """The same on storage in memory, for all connections of this process, those of a command among them."""
    storage, begin = MemoryStorage(), Connections.__init__

    def begin_served(connections, *words, **more):
        begin(connections, *words, **more)
        storage.serve(connections)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connections, "__init__", begin_served)
        # A command looks first whether anything listens there.
        patch.setattr(options, "_check_answer", lambda _url: None)
        with installed(lambda _entities: storage) as made:
            yield made
