"""Accepting and dispatching on the run's Azurite, as one process after another would."""

import itertools
import json
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from shared.azure import BlobStore
from shared.azure.connections import Connections
from shared.clock import Retry
from shared.concurrency import FleetTable
from shared.errors import StorageUnavailableError
from shared.gate.state import Reading
from shared.ids import RangeGenerator
from shared.payload import Limits, PayloadStores, open_envelope
from shared.pending import PendingTable
from shared.pipeline.accept import Acceptance
from shared.pipeline.dispatch import Dispatcher, Enclosing
from shared.pipeline.feeding.ready import ReadyTable
from shared.pipeline.halts import Halts
from shared.pipeline.plan import ChunkSizes, PlanStore
from shared.pipeline.start import Planning, Starter
from shared.workloads.billing import Billing
from shared.workloads.registry import Workloads
from tests.faults.plan import KilledError, killed
from tests.gate.conftest import NOON, ManualClock, RecordedSignals
from tests.ledger.memory_ledger import MemoryLedger

_numbers = itertools.count(1)
CHUNK_ITEMS = 25


class Queues:
    """Queues that only remember; one can be told to refuse some puts."""

    def __init__(self, clock):
        self.sent, self.refuse_next, self.clock = [], 0, clock

    def send(self, queue, message):
        """Remember the message, or refuse it as storage under load does."""
        if self.refuse_next:
            self.refuse_next -= 1
            raise StorageUnavailableError("busy")
        self.sent.append((queue, json.loads(message)["sluice"]))
        return self.clock.now()

    def on(self, prefix):
        """Return the messages that were put on queues of this name."""
        return [message for queue, message in self.sent if queue.startswith(prefix)]


class Gates:
    """One gate that a test opens and closes; what it holds is remembered."""

    def __init__(self):
        self.now, self.rows, self.after_keeping = Reading(0, is_open=False), {}, lambda: None

    @property
    def held(self):
        """Gate and id of each row."""
        return list(self.rows)

    def reading(self, gate):
        """Return how the gate is."""
        return self.now

    def keep(self, entry):
        """Keep the row, or find it."""
        row = self.rows.setdefault((entry.gate, entry.id), entry)
        self.after_keeping()
        return row

    def forget(self, entry):
        """Remove the row."""
        self.rows.pop((entry.gate, entry.id), None)


class Room:
    """What may be put at once, as a test says, and the feeder as this process sees it."""

    def __init__(self, left=10_000, feed=None):
        self.left, self.feed, self.following = left, feed, self

    def take(self, chunks, _room):
        """Return how many of so many chunks have room."""
        taken = min(chunks, self.left)
        self.left -= taken
        return taken

    def view_feed(self, _age):
        """Return the feeder's row."""
        return self.feed


class Process:
    """What one process of the app has; `crashes` makes its storage requests fail as planned."""

    def __init__(self, azurite, world, transport=None):
        self.connections = Connections(azurite.connection_string, transport=transport)
        container = self.connections.blobs.get_container_client
        ids = RangeGenerator(
            BlobStore(self.connections.blobs.get_container_client("ids"), world.sequence), prefetch=False
        )
        plans, limits = PlanStore(container), Limits()
        stores = PayloadStores(container, limits)
        pending = PendingTable(self.connections.tables.get_table_client("pending"))
        fleet = FleetTable(self.connections.tables.get_table_client("decisions"))
        self.halts = Halts(ledger=world.ledger, fleet=fleet, pending=pending, clock=world.clock)
        self.dispatcher = Dispatcher(
            ledger=world.ledger,
            plans=plans,
            enclose=Enclosing(stores, limits),
            send=world.queues.send,
            finish=lambda job: world.finished.append(job.job),
            halts=self.halts,
            clock=world.clock,
            work_queues=4,
            retry=Retry(pause=lambda _seconds: None),
        )
        self.ready = ReadyTable(self.connections.tables.get_table_client("pending"))
        self.starter = Starter(
            ledger=world.ledger,
            gates=world.gates,
            dispatcher=self.dispatcher,
            direct=world.room,
            ready=self.ready,
            call_feeder=lambda seconds=0.0: world.calls.append(seconds),
            pending=pending,
            clock=world.clock,
            overdue=timedelta(minutes=10),
            list_failures=lambda _job: (),
        )
        self.acceptance = Acceptance(
            ledger=world.ledger,
            stores=stores,
            plans=plans,
            planning=Planning(ids, world.gates),
            starter=self.starter,
            waiting=None,
            stretching=None,
            ranges=None,
            pending=pending,
            clock=world.clock,
            sums={"billing": ("quantity",)},
            limits=limits,
            sizes=ChunkSizes(CHUNK_ITEMS, None, Workloads([Billing()])),
            overdue=timedelta(minutes=10),
        )

    def accept(self, body, message_id, room="", *, again=False):
        """Accept a submission as it lies on the queue of a room."""
        return self.acceptance.accept(open_envelope(body, self.acceptance.limits), message_id, room, again=again)

    def plan(self, body, message_id, *, is_ahead=False):
        """Accept one as a process does that ends right after it has planned the job.

        `is_ahead`: the row of a small job says that its chunk was put.
        """
        note_place = self.starter.note_place if is_ahead else lambda job: job
        starter = SimpleNamespace(start=lambda *_, **__: killed(), note_place=note_place)
        with suppress(KilledError):
            replace(self.acceptance, starter=starter).accept(open_envelope(body, self.acceptance.limits), message_id)

    def dispatch(self, job, **options):
        """Dispatch a job that may start, as its row is now."""
        return self.dispatcher.dispatch(self.acceptance.ledger.read(job), **options)


class World:
    """What outlasts a process."""

    def __init__(self):
        self.job = f"job-{next(_numbers)}"
        self.sequence = f"{self.job}-ids"
        self.ledger, self.clock, self.finished = MemoryLedger(), ManualClock(NOON), []
        self.gates, self.queues, self.signals = Gates(), Queues(self.clock), RecordedSignals()
        self.room, self.calls = Room(), []

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

    make.azurite = provisioned
    yield make
    for one in made:
        one.connections.close()
