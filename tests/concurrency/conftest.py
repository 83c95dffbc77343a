"""A fleet on the run's Azurite: its partition empty, no rules, work queues of its own."""

import itertools
from datetime import UTC, datetime

import pytest

from shared.app import Stores
from shared.azure.connections import Connections
from shared.azure.pushback import Pushback
from shared.concurrency.following import Following, Gauge
from shared.concurrency.tuning import QueueDepths, Tuning
from shared.watch import TickNeeds
from tests.gate.conftest import ManualClock

_numbers = itertools.count(1)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Fleet:
    """What a test of several processes needs; each process has its own push-back and gauge, all share the storage."""

    def __init__(self, connections, queue):
        self.connections, self.queue = connections, queue
        self.clock = ManualClock(NOON)
        stores = Stores(connections)
        self.table, self.rules = stores.fleet, stores.rules
        self.watch = stores.watch
        self.needs = TickNeeds(stores.watch, self.clock)
        self.recorded, self.later = [], []

    def process(self, **options):
        """Return what one more process follows."""
        options.setdefault("decide", self.tuning().catch_up)
        gauge = Gauge(self.clock, cpu_seconds=lambda: 0.0)
        late = lambda seconds, act: self.later.append(act)  # noqa: E731 - one line, used once
        return Following(self.table, Pushback(self.clock), gauge, self.clock, later=late, **options)

    def tuning(self, **options):
        """Return what one ticking process decides with."""
        return Tuning(
            fleet=self.table,
            rules=self.rules,
            depths=QueueDepths([self.queue], self.clock).sample,
            pushback=Pushback(self.clock),
            record=self.recorded.append,
            needs=self.needs,
            clock=self.clock,
            **{"lane": lambda: 0, "top_up": lambda _depth, _tasks: 0} | options,
        )

    def put(self, number):
        """Put so many messages on the work queue."""
        for _ in range(number):
            self.queue.send_message("{}")

    def empty(self):
        """Take all of them away."""
        self.queue.clear_messages()


@pytest.fixture
def fleet(provisioned):
    """A fleet that nobody knew before; its rules and decisions are taken away after it too."""
    with Connections(provisioned.connection_string) as connections:
        _empty(connections)
        queue = connections.queues.create_queue(f"depths-{next(_numbers)}")
        yield Fleet(connections, queue)
        queue.delete_queue()
        _empty(connections)


def _empty(connections):
    table = connections.tables.get_table_client("decisions")
    for row in table.list_entities(select=["PartitionKey", "RowKey"]):
        table.delete_entity(row)
    settings = connections.blobs.get_container_client("settings")
    for name in list(settings.list_blob_names()):
        settings.delete_blob(name)
