"""A ledger and its watch, in tables of their own."""

import uuid
from datetime import timedelta
from types import SimpleNamespace

import pytest
from azure.data.tables import TableServiceClient

from shared.ledger import TableLedger
from shared.watch import WatchTable
from tests.ledger.builders import NOON


def minute(number):
    """Return the moment so many minutes after noon."""
    return NOON + timedelta(minutes=number)


class Clock:
    """Shows the time that a test sets."""

    def __init__(self):
        self.at = NOON

    def now(self):
        """Return it."""
        return self.at


class Noted:
    """A watch that keeps which needs stand, and counts the requests."""

    def __init__(self):
        self.stands, self.requests = {}, 0

    def begin(self, need):
        """Keep it."""
        self.requests += 1
        self.stands[need.kind, need.about] = need

    def end(self, kind, about, _at):
        """Forget it."""
        self.requests += 1
        self.stands.pop((kind, about), None)

    def said(self):
        """Return the needs as words."""
        return {f"{need.words} {need.about}": need.found for need in self.stands.values()}


@pytest.fixture(scope="session")
def tables(azurite):
    """The table service of this run."""
    with TableServiceClient.from_connection_string(azurite.connection_string) as service:
        yield service


@pytest.fixture
def house(tables):
    """The ledger, its watch, and the table below."""
    run = uuid.uuid4().hex[:12]
    jobs, index, decisions = (tables.create_table(f"{name}{run}") for name in ("jobs", "jobindex", "decisions"))
    clock, watch = Clock(), WatchTable(decisions)
    with jobs, index, decisions:
        ledger = TableLedger(jobs, index, clock=clock, watch=watch)
        yield SimpleNamespace(ledger=ledger, watch=watch, clock=clock, table=decisions)
