"""Read models on the run's Azurite: tables that begin empty, a clock that tests move, and processes that may break."""

import itertools
from collections import defaultdict

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import BlobLeaseClient

from shared.azure import Connections
from shared.clock import Retry
from shared.processes import Commit
from shared.readmodels import (
    PROJECTORS_KEEP,
    READERS_KEEP,
    KeptPointer,
    Migration,
    Pointers,
    Projector,
    Slot,
    SlotTable,
    ViewReader,
    ViewStores,
    ViewWriter,
)
from tests.eventsourcing.memory_homes import MemoryHomes
from tests.gate.conftest import NOON, ManualClock
from tests.readmodels.counters import COUNTERS, event_of, ranges_of

_numbers = itertools.count(1)
#: Races of tests do not wait.
NO_PAUSES = Retry(pause=lambda _seconds: None)


class House:
    """The log of one installation, its tables, and the processes that work on them."""

    def __init__(self, settings, model=COUNTERS):
        self.settings, self.model, self.clock = settings, model, ManualClock(NOON)
        self.number = next(_numbers)
        self.homes = MemoryHomes(page=7)
        self.own = Process(self)
        for name in self.table_names.values():
            self.own.connections.tables.create_table(name)

    def connect(self, plan):
        """Return connections of a process. With a plan, its requests may break."""
        return Connections.parse(self.settings, transport=plan and plan.transport, retries=0 if plan else 2)

    @property
    def table_names(self):
        """Names of tables that no other test has."""
        return {name: f"{name}{self.number}" for name in (*Slot, "models")}

    def append(self, home, *amounts, is_public=True):
        """Have these events happen, and return their range."""
        head = self.homes.read_head(home)
        expected = head.version if head else 0
        events = tuple(event_of(one, is_public=is_public) for one in amounts)
        self.homes.commit(Commit(home=home, aggregate="counter", expected=expected, events=events))
        return ranges_of(home, self.homes.read_tail(home, expected))

    def wait(self, seconds):
        """Let time pass."""
        self.clock.advance(seconds=seconds)

    def process(self, plan=None):
        """Start a process. With a plan, its requests may break."""
        return Process(self, plan)

    def free_lease(self):
        """End the lease of a process that was killed, as a minute does."""
        leased = self.own.connections.blobs.get_blob_client("settings", f"migrate-{self.model.name}")
        try:
            BlobLeaseClient(leased).break_lease(0)
        except (HttpResponseError, ResourceNotFoundError):
            return

    def rows(self, slot, version):
        """Return the rows of a version: what each home shows, and what it has seen."""
        found = defaultdict(list)
        for page in self.own.slots[slot].scan(self.model.name, version):
            for row in page:
                found[row.home].append((row.place.key, row.seen, row.view))
        return dict(found)

    def expected(self, version):
        """Return the same, as the log makes it."""
        projection, found = self.model.projection(version), {}
        for home, head in self.all_heads():
            events, view = self.homes.read_tail(home, 0), None
            for one in events:
                view = projection.fold(view, one) if one.is_public else view
            found[home] = [(projection.key(home, events).key, head.version, view)]
        return found

    def all_heads(self):
        """Yield every home with its head."""
        cursor = ""
        while cursor is not None:
            page = self.homes.heads(self.model.homes, cursor)
            yield from page.heads
            cursor = page.cursor

    def close(self):
        """Drop the tables."""
        for name in self.table_names.values():
            self.own.connections.tables.delete_table(name)
        self.own.connections.close()


class Process:
    """One process: its connections, its pointers, its projector, its reader, and a migrator."""

    def __init__(self, house, plan=None):
        self.house = house
        self.connections = house.connect(plan)
        tables = self.connections.tables
        self.slots = {slot: SlotTable(tables.get_table_client(house.table_names[slot])) for slot in Slot}
        self.pointers = Pointers(tables.get_table_client(house.table_names["models"]), house.clock)
        self.pointer = KeptPointer(self.pointers, house.model, PROJECTORS_KEEP, house.clock)
        self.writer = ViewWriter(house.model, self.slots, house.homes, races=NO_PAUSES)
        #: What it noted of its model.
        self.noted = []
        self.projector = Projector(self.pointer, self.writer, house.clock, lambda *said: self.noted.append(said))
        self.reader = ViewReader(KeptPointer(self.pointers, house.model, READERS_KEEP, house.clock), self.slots)

    def migration(self, target=2, report=lambda _act, _done: None):
        """Return the migration, whose waits move the clock."""
        stores = ViewStores(
            pointers=self.pointers,
            slots=self.slots,
            homes=self.house.homes,
            leases=self.connections.blobs.get_container_client("settings"),
            clock=self.house.clock,
        )
        return Migration(self.house.model, target, stores, report=report, pause=self.house.wait)

    def find(self, home):
        """Read the view of a home as a reader does."""
        key = {
            version.version: version.key(home, self.house.homes.read_tail(home, 0))
            for version in self.house.model.versions
        }
        found = self.reader.find(key.__getitem__)
        return found and found.view


@pytest.fixture
def house(stack_settings):
    """An empty installation with one read model."""
    made = House(stack_settings)
    yield made
    made.close()
