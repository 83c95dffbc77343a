"""Accepting and dispatching on the run's Azurite, as one process after another would."""

import itertools
import json
from datetime import UTC, datetime, timedelta

import pytest

from shared.connections import Connections
from shared.errors import StorageUnavailableError
from shared.gate.held_work import Holding
from shared.gate.state import Reading
from shared.ids import BlobStore, RangeGenerator
from shared.ledger.memory_ledger import MemoryLedger
from shared.payload import Intake, Limits, PayloadStore, open_envelope
from shared.pending import PendingTable
from shared.pipeline.accept import Acceptance
from shared.pipeline.dispatch import Dispatcher
from shared.pipeline.enclosing import Enclosing
from shared.pipeline.plan_store import PlanStore
from tests.gate.conftest import ManualClock

_numbers = itertools.count(1)
CHUNK_ITEMS = 10


class Queues:
    """Queues that only remember; one can be told to refuse some puts."""

    def __init__(self):
        self.sent, self.refuse_next = [], 0

    def send(self, queue, message):
        """Remember the message, or refuse it as storage under load does."""
        if self.refuse_next:
            self.refuse_next -= 1
            raise StorageUnavailableError("busy")
        self.sent.append((queue, json.loads(message)["sluice"]))

    def on(self, prefix):
        """Return the messages that were put on queues of this name."""
        return [message for queue, message in self.sent if queue.startswith(prefix)]


class Gates:
    """One gate that a test opens and closes; what it holds is remembered."""

    def __init__(self, queues):
        self.now, self.held, self._queues = Reading(0, is_open=False), [], queues

    def reading(self, gate):
        """Return how the gate is."""
        return self.now

    def hold(self, gate, entry_id, queue, message):
        """Hold, or pass on."""
        if not self.now.is_open:
            self.held.append((gate, entry_id))
            return Holding.HELD
        self._queues.send(queue, message)
        return Holding.PASSED


class Process:
    """What one process of the app has; `crashes` makes its storage requests fail as planned."""

    def __init__(self, azurite, world, transport=None):
        self.connections = Connections(azurite.connection_string, transport=transport)
        payloads = self.connections.blobs.get_container_client("payloads")
        ids = RangeGenerator(
            BlobStore(self.connections.blobs.get_container_client("ids"), world.sequence), prefetch=False
        )
        plans, limits = PlanStore(payloads), Limits()
        self.acceptance = Acceptance(
            ledger=world.ledger,
            intake=Intake(PayloadStore(payloads, limits), limits),
            plans=plans,
            ids=ids,
            gates=world.gates,
            send=world.queues.send,
            pending=PendingTable(self.connections.tables.get_table_client("pending")),
            clock=world.clock,
            sums={"billing": ("quantity",)},
            limits=limits,
            chunk_items=CHUNK_ITEMS,
            overdue=timedelta(minutes=10),
        )
        self.dispatcher = Dispatcher(
            ledger=world.ledger,
            plans=plans,
            enclose=Enclosing(PayloadStore(payloads, limits), limits),
            send=world.queues.send,
            finish=lambda job: world.finished.append(job.job),
            clock=world.clock,
            work_queues=4,
            pause=lambda _attempt: None,
            patience=timedelta(minutes=4),
        )

    def accept(self, body, message_id):
        """Accept a submission as it lies on the queue."""
        return self.acceptance.accept(open_envelope(body, self.acceptance.limits), message_id)


class World:
    """What outlasts a process."""

    def __init__(self):
        self.job = f"job-{next(_numbers)}"
        self.sequence = f"{self.job}-ids"
        self.ledger, self.queues, self.finished = MemoryLedger(), Queues(), []
        self.gates, self.clock = Gates(self.queues), ManualClock(datetime(2026, 11, 20, 12, tzinfo=UTC))

    def submission(self, items=25, **fields):
        """Return the body of a submission of this world's job, its frames as large as a chunk."""
        lines = [{"amount": "1.10", "n": n} for n in range(items)]
        return json.dumps({"sluice": {"job": self.job, "items": lines, **fields}}).encode()


@pytest.fixture
def world():
    """A ledger, queues and a gate of the test's own."""
    return World()


@pytest.fixture
def process(provisioned, world):
    """Make processes of this world that are closed at the end."""
    made = []

    def make(transport=None):
        made.append(Process(provisioned, world, transport))
        return made[-1]

    yield make
    for one in made:
        one.connections.close()
