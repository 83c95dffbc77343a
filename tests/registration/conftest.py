"""Registration over the run's Azurite and a broker with its entities: an account of its own for each test."""

import itertools
from contextlib import contextmanager

import pytest
from servicebus_local.launcher import Broker

from shared.settings import Settings
from shared.topology import topology
from tests.registration.world import World
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision
from tools.local.stack import bus_entities, settings_for

_numbers = itertools.count(1)
CHOICE = {"SLUICE_CAPABILITIES": "registration", "SLUICE_SEAT_LANES": "1", "SLUICE_RESERVATION_SECONDS": "900"}


@contextmanager
def installation():
    """Run an installation that nobody has used."""
    with Azurite.start() as azurite:
        settings = settings_for(
            azurite.connection_string, "Endpoint=sb://nowhere/;SharedAccessKeyName=a;SharedAccessKey=b"
        )
        parsed = Settings.parse(settings | CHOICE)
        provision(azurite.connection_string, topology(parsed.work_queues, parsed.entities))
        with Broker.start(bus_entities(parsed), lock_seconds=300) as broker:
            settings = settings_for(azurite.connection_string, broker.connection_string) | CHOICE
            with World(Settings.parse(settings), settings) as made:
                yield made


@pytest.fixture
def world():
    """An installation that nobody has used."""
    with installation() as made:
        yield made
