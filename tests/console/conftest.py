"""The console over an Azurite of its own, visited by Werkzeug's client as a browser would."""

from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from werkzeug.test import Client

from capabilities.console.app import Application
from capabilities.console.session import LocalLogin
from capabilities.console.snapshot import Snapshot
from capabilities.console.visit import View
from shared.app import Stores
from shared.azure import Connections
from shared.topology import topology
from shared.usage import load
from tests.console.fillings import NOON
from tests.faults.memory.storage import MemoryStorage
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision

PORT = 8765
HOST = f"127.0.0.1:{PORT}"


class Clock:
    """Stands still until a test moves it."""

    def __init__(self):
        self._now = NOON

    def now(self):
        """Return the time that the test set."""
        return self._now

    def monotonic(self):
        """Return the same in seconds."""
        return self._now.timestamp()

    def of_reply(self, named):
        """Return the time that was set."""
        return self._now

    def advance(self, seconds):
        """Move it."""
        self._now += timedelta(seconds=seconds)


class Visitor:
    """A browser that was let in: it keeps its cookie, and knows the folder of the pages."""

    def __init__(self, login, application):
        self.client = Client(application)
        entered = self.client.get(urlsplit(login.issue()).path, headers={"Host": HOST})
        assert entered.status_code == 303, entered.text
        self.folder = entered.headers["Location"].rstrip("/")

    def get(self, path, **headers):
        """Open a page."""
        return self.client.get(f"{self.folder}{path}", headers={"Host": HOST} | headers)

    def look_again(self, path, shown):
        """Send the request of a page that is shown and looks again."""
        sign = "&" if "?" in path else "?"
        return self.get(f"{path}{sign}part=1", **{"If-None-Match": shown.headers["ETag"]})


class Installation:
    """Storage, and the console over it."""

    def __init__(self, connection_string, storage=None):
        """Build it on the storage of this address, or on one in memory."""
        self.connections = Connections(connection_string)
        if storage:
            storage.serve(self.connections)
        self.clock = Clock()
        self.stores = Stores(self.connections, clock=self.clock)
        self.snapshot = Snapshot(self.stores, work_queues=1, rooms=())
        #: The replays that the console was to go on with.
        self.stepped = []
        view = View(
            stores=self.stores,
            snapshot=self.snapshot,
            clock=self.clock,
            prices=load(),
            step_replay=self.stepped.append,
        )
        self.login = LocalLogin(PORT, "dana", may_act=True, monotonic=self.clock.monotonic)
        self.application = Application(view, self.login)

    @property
    def requests(self):
        """Return the number of storage requests so far."""
        return self.connections.meter.tally.total()

    def count(self, visit):
        """Return the reply of a visit, and the requests that it made."""
        before = self.requests
        reply = visit()
        return reply, self.requests - before

    def visitor(self):
        """Return a browser that was let in."""
        return Visitor(self.login, self.application)


@pytest.fixture(scope="module")
def own_azurite():
    """Storage that no other test writes to, empty at the start of a module."""
    with Azurite.start() as running:
        provision(running.connection_string, topology())
        yield running


@pytest.fixture(scope="module")
def own_memory():
    """The same in memory, which no other process reaches."""
    return MemoryStorage()


@pytest.fixture
def house(own_memory):
    """An installation, and the console over it."""
    made = Installation(own_memory.connection_string, own_memory)
    with made.connections:
        yield made


@pytest.fixture
def visitor(house):
    """A browser that was let in."""
    return house.visitor()
