"""Chunks that are parked, on the run's Azurite, with a worker that a test lets work."""

import itertools
from dataclasses import replace

import pytest
from azure.storage.queue import QueueClient
from typer.testing import CliRunner

from shared.errors import SluiceError
from shared.messages import Delivery, decode
from shared.parked.parking import QueuesPut, Stages
from shared.parked.poison_policy import DEFAULT_POLICY
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import Plan
from tests.parked.replaying import build_operator
from tests.parked.stages import stages
from tests.process.world import MemoryWorld, World
from tools.cli.main import app

_numbers = itertools.count(1)


class Ward:
    """Several chunks of one job that are parked for one cause, a queue to put them back on, and a worker of it."""

    def __init__(self, storage, queue, chunks=3, kind=World):
        self.worlds, self.queue = [kind(storage) for _ in range(chunks)], queue
        self.is_broken, self.deliveries, self.pauses = True, 0, []
        #: For each waking, whether there was something on the queue by then.
        self.wakings = []
        for number, world in enumerate(self.worlds):
            world.clock = self.worlds[0].clock
            world.clock.advance(1)
            world.workload.fault = self._fault
            self._park(world, number)

    def _park(self, world, number):
        with world.process() as process:
            process.processor.handle(
                Delivery(
                    queue=self.queue.queue_name,
                    message_id=f"m{number}",
                    body=world.body,
                    count=DEFAULT_POLICY.deliveries,
                )
            )

    def _fault(self, _sale):
        if self.is_broken:
            raise ZeroDivisionError

    @property
    def clock(self):
        """The clock of everything here."""
        return self.worlds[0].clock

    @property
    def entries(self):
        """What is parked of these chunks, as it is now."""
        return [world.entry for world in self.worlds]

    def work(self, delivery=DEFAULT_POLICY.deliveries):
        """Have a healthy worker empty the queue, as if each message came for the so-manieth time."""
        while (message := self.queue.receive_message()) is not None:
            self.deliveries += 1
            body = message.content.encode()
            (world,) = (world for world in self.worlds if world.job == decode(body).job)
            with world.process() as process:
                process.processor.handle(
                    Delivery(queue=self.queue.queue_name, message_id=message.id, body=body, count=delivery)
                )
            self.queue.delete_message(message)

    def pause(self, seconds):
        """Let the time pass and the worker work."""
        self.pauses.append(seconds)
        self.clock.advance(seconds)
        self.work()

    def wake(self):
        """Remember whether whoever is woken finds work."""
        self.wakings.append(bool(self.queue.peek_messages()))

    def has_landed(self, entry):
        """Whether the ledger would have the chunk as done."""
        return any(one.hash for world in self.worlds for one in world.sent if one.job == entry.job)

    def operator(self, process, pause=None):
        """Return the operator whose requests are those of this process."""
        given = stages(put=QueuesPut(process.connections.queues, lambda _queue: None)).find("process")
        own = Stages(replace(given, has_landed=self.has_landed))
        return build_operator(process, own, self.clock, pause or self.pause, self.wake)

    def process(self, plan=None):
        """Return a process of the operator's."""
        return self.worlds[0].process(plan or Plan())


@pytest.fixture
def make_ward(provisioned):
    """Make wards that are closed at the end."""
    made = []

    def make(chunks=3):
        queue = QueueClient.from_connection_string(provisioned.connection_string, f"ward-{next(_numbers)}")
        queue.create_queue()
        made.append(Ward(provisioned, queue, chunks))
        return made[-1]

    yield make
    for ward in made:
        ward.queue.delete_queue()
        ward.queue.close()


@pytest.fixture
def make_ward_in_memory():
    """Make wards on storages in memory, for a fault at each request."""
    opened = []

    def make(chunks=3):
        storage = MemoryStorage()
        opened.append(storage.connections())
        return Ward(storage, opened[-1].queues.get_queue_client("work-00"), chunks, MemoryWorld)

    yield make
    for connections in opened:
        connections.close()


@pytest.fixture
def ward(make_ward):
    """Three chunks, parked."""
    return make_ward()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The library's retries wait for nobody here."""
    monkeypatch.setattr("shared.azure.connections.PAUSE", 0.001)
    # Their replays share a table and a second: the newest hundred of them would be any.
    monkeypatch.setattr("shared.operating.replay_record.KEPT", 10_000)


@pytest.fixture
def sluice(stack_settings):
    """Run the command in this process, as `main` does it."""

    def run(*arguments, answer=None):
        environment = stack_settings | {"COLUMNS": "250"}
        done = CliRunner().invoke(app, ["parked", *arguments], env=environment, input=answer)
        if isinstance(done.exception, SluiceError):
            raise done.exception
        return done

    return run
