"""Ledgers of both kinds, empty, under one fixture."""

import uuid
from functools import partial

import pytest
from azure.data.tables import TableServiceClient

from shared.ledger import TableLedger
from tests.faults.plan import Plan
from tests.ledger.memory_ledger import MemoryLedger
from tests.ledger.world import MemoryWorld, World


@pytest.fixture(scope="session")
def tables(azurite):
    """The table service of this run."""
    with TableServiceClient.from_connection_string(azurite.connection_string) as service:
        yield service


@pytest.fixture
def table_ledger(tables):
    """A ledger in two tables of its own."""
    run = uuid.uuid4().hex[:12]
    jobs, index = (tables.create_table(f"{name}{run}") for name in ("jobs", "jobindex"))
    with jobs, index:
        yield TableLedger(jobs, index)


@pytest.fixture
def table_of(tables):
    """Make a ledger in two tables of its own, each time it is called."""

    def make():
        run = uuid.uuid4().hex[:12]
        return TableLedger(*(tables.create_table(f"{name}{run}") for name in ("jobs", "jobindex")))

    return make


@pytest.fixture(params=["memory", "table"])
def ledger(request):
    """A ledger that holds nothing yet."""
    return MemoryLedger() if request.param == "memory" else request.getfixturevalue("table_ledger")


@pytest.fixture
def make_world(azurite):
    """Worlds that are closed at the end."""
    yield from _make(partial(World, azurite.connection_string))


@pytest.fixture
def make_in_memory():
    """The same on a storage in memory, with the faults of a plan."""
    yield from _make(lambda *, plan=None, **options: MemoryWorld(plan or Plan(), **options))


def _make(build):
    made = []

    def make(**options):
        made.append(build(**options))
        made[-1].accept()
        return made[-1]

    yield make
    for world in made:
        world.close()
