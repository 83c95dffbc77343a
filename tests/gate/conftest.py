"""Gates on the run's Azurite: a clock that tests move, signals that are recorded, tables that begin empty."""

import itertools
import math
from datetime import UTC, datetime, timedelta

import pytest

from shared.app import Stores
from shared.azure.connections import Connections
from shared.errors import SignalNotSentError
from shared.gate.held import HeldEntry
from shared.gate.outflow import Batches, Outflow
from shared.gate.releaser import GateTick, Releaser
from shared.messages import ChunkMessage
from shared.signals import Hint

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
_names = itertools.count(1)


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now=NOON):
        self._now = now

    def now(self):
        """Return the time that the test set."""
        return self._now

    def monotonic(self):
        """Return the same time in seconds."""
        return self._now.timestamp()

    def of_reply(self, told):
        """Return the time that was set, whatever storage tells."""
        return self.now()

    def advance(self, **duration):
        """Move it."""
        self._now += timedelta(**duration)


class RecordedSignals:
    """Signals that go nowhere but into a list; or a bus that is down."""

    def __init__(self, *, is_down=False):
        self.sent, self.is_down, self.on_connect = [], is_down, lambda: None

    def connect(self, within):
        """Call whoever wants to know of it."""
        self.on_connect()

    def send(self, gate, epoch, at=None):
        """Keep the signal."""
        self._keep((gate, epoch, at) if at else (gate, epoch))

    def send_on(self, hints, epoch):
        """Keep the signals."""
        for hint in hints:
            self._keep(hint)

    def send_job(self, job):
        """Keep the signal."""
        self._keep(job)

    def _keep(self, said):
        if self.is_down:
            raise SignalNotSentError("down")
        self.sent.append(said)


class NoJobs:
    """Everything that is held here is for a queue."""

    def is_job(self, entry):
        """Nothing is."""
        return False


class House:
    """Everything about gates, with whoever starts what is held there."""

    def __init__(self, connections, jobs=None, **options):
        self._stores = stores = Stores(connections, **options)
        self._jobs = jobs or NoJobs()
        self.batches = Batches(stores.held_work, self._jobs, stores.clock, stores.parallel)
        self.outflow = Outflow(stores.held_work, self.batches, stores.slices, stores.rolls, stores.clock)
        self.pauses = []
        self.releaser = Releaser(
            stores.gates,
            self.outflow,
            self._jobs,
            stores.receipts,
            stores.signals,
            clock=stores.clock,
            pause=self.pauses.append,
        )
        self.tick = GateTick(
            stores.gates,
            stores.held_work,
            self.releaser,
            stores.pending,
            stores.clock,
            needs=stores.tick_needs,
            list_gates=stores.gate_reader().list_names,
        )

    def release(self, gate):
        """Release what is behind a gate, without a receipt."""
        return self.outflow.run(self.gates.read(gate), Hint(gate), math.inf, lambda hints: None)

    def __getattr__(self, name):
        return getattr(self._stores, name)


@pytest.fixture
def clock():
    """Noon."""
    return ManualClock()


@pytest.fixture
def signals():
    """A bus that takes everything."""
    return RecordedSignals()


@pytest.fixture
def connections(provisioned):
    """Storage whose tables of work begin empty."""
    with Connections(provisioned.connection_string) as made:
        for table in ("held", "pending"):
            client = made.tables.get_table_client(table)
            for row in client.list_entities():
                client.delete_entity(row)
        yield made


@pytest.fixture
def house(connections, clock, signals):
    """Everything about gates."""
    return House(connections, clock=clock, signals=signals, parallel=2)


@pytest.fixture
def house_under(provisioned, clock, signals, monkeypatch):
    """A function that makes another process's view of the same gates, whose requests a plan counts or breaks."""
    opened = []
    # The pauses before repetitions are of no interest here, only the repetitions.
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.004)

    def make(plan, parallel=1, jobs=None):
        opened.append(Connections(provisioned.connection_string, transport=plan.transport))
        return House(opened[-1], jobs, clock=clock, signals=signals, parallel=parallel)

    yield make
    for connections in opened:
        connections.close()


@pytest.fixture
def gate():
    """A gate that no other test knows."""
    return f"gate-{next(_names)}"


@pytest.fixture
def queue(connections):
    """A queue of the test's own."""
    name = f"dest-{next(_names)}"
    client = connections.queues.create_queue(name)
    yield client
    client.delete_queue()
    client.close()


def held(gate, name, epoch=0, **fields):
    """Return a held job."""
    return HeldEntry(gate=gate, id=name, epoch=epoch, queue="submissions", message="m", held_at=NOON, **fields)


def taken(mark):
    """Return the mark of a release as a message gets it, or None if another one has it."""
    message = ChunkMessage(job="j", chunk=0, revision=1, workload="w", codec="zstd", frames=[], first_id=1)
    return mark.put_on_first([message])[0].first


def bodies(queue):
    """Return what is on a queue, and take it for good: what is only received comes back after half a minute."""
    found = sorted(message.content for message in queue.receive_messages(messages_per_page=32))
    queue.clear_messages()
    return found
