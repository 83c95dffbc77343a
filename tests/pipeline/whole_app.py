"""The whole app in one process, driven to the end of a job; what it requests is counted apart from what others do."""

from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from shared.app import App, Stores
from shared.azure.meter import BUS
from shared.dequeue import CONTAINER
from shared.grammar import room_job
from shared.messages import Delivery
from shared.payload import Limits
from shared.pipeline.settle import Received
from shared.publish import Publisher
from shared.telemetry.log import SILENT
from shared.topology import payload_container, submission_queue, topology
from shared.workloads.registry import Workloads
from tests.faults.bus import Bus, BusConnections
from tests.faults.journal import Journal
from tests.faults.memory.storage import MemoryStorage
from tests.faults.plan import Plan
from tests.faults.sales import Sales
from tests.faults.world import SETTINGS, SMALL, ManualClock, NoSlots, Unsent, sales
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision

#: The bounds of an app.
WIDE = Limits()


@contextmanager
def running_app(*parts, **options):
    """Yield an app on an Azurite of its own: the queues have their real names."""
    with Azurite.start() as own:
        provision(own.connection_string, topology(entities=list(parts)))
        made = WholeApp(own.connection_string, **options)
        made.storage = own.connection_string
        with made.metered, made.others:
            yield made


@contextmanager
def app_in_memory(*parts, **options):
    """Yield an app on storage in memory, for those who look at jobs: tests/faults/test_memory.py holds it to Azurite."""
    storage = MemoryStorage(*parts)
    made = WholeApp(storage.connection_string, storage=storage, **options)
    made.storage = storage
    storage.follow(made.clock.now)
    with made.metered, made.others:
        yield made


class WholeApp:
    """The app on storage of its own; the host's and the publisher's requests are other clients'."""

    def __init__(
        self,
        connection_string,
        telemetry=SILENT,
        settings=SETTINGS,
        workload=None,
        settles_at_once=None,
        *,
        storage=None,
        limits=WIDE,
    ):
        clock, self.settles_at_once = ManualClock(), settles_at_once
        self.bus = Bus(Journal(), clock.now)
        self.metered, self.others = (
            BusConnections(connection_string, self.bus, Plan(), transport=None) for _ in range(2)
        )
        if storage:
            storage.serve(self.metered)
            storage.serve(self.others)
        self.metered.telemetry = self.others.telemetry = telemetry
        self.clock, self.stores = clock, Stores(self.metered, clock=clock)
        # It delivers by itself, so nothing is woken.
        self.stores.slots = NoSlots(self.stores.container(CONTAINER), clock)
        self.stores.send_permits = Unsent()
        with patch("shared.app.stages.Limits", lambda: limits):
            self.app = App(self.metered, settings, Workloads([workload or Sales()]), stores=self.stores)
        # While the feeder rests, others work.
        self.feeder = replace(self.app.stages.feeder, pause=self.go_on)
        self.handlers = {submission_queue(room): self.app.accept for room in ("", *settings.rooms)}
        # Of the processor: what is counted is the job's requests, without those of following the fleet's decision.
        self.handlers["work-00"] = self.app.stages.processor.handle

    def run(self, job, items, room=""):
        """Run a job to its end, and return it with how many requests the app made meanwhile."""
        before = self.made()
        self.submit(job, items, room)
        self.work_off()
        made = self.made() - before
        return self.read(job, room), made

    def read(self, job, room=""):
        """Return a job of a room."""
        return Stores(self.others).ledger.read(room_job(room, job))

    def submit(self, job, items, room="", **fields):
        """Drop a submission into a room, as its publisher does."""
        queue = self._queue(submission_queue(room))
        payloads = self.others.blobs.get_container_client(payload_container(room))
        publisher = Publisher(queue, payloads, limits=SMALL, telemetry=self.others.telemetry)
        publisher.submit(job=job, transactions=sales(*"ab" * items), workload="sales", **fields)

    def work_off(self):
        """Deliver until nothing is left to deliver."""
        while self.deliver() or self._settle() or self._feed():
            pass

    def made(self):
        """Return how many requests the app made to storage."""
        return sum(number for (kind, _), number in self.metered.meter.tally.counts().items() if kind.service != BUS)

    def deliver(self, *names):
        """Deliver what is on these queues, or on all."""
        found = [
            (name, one)
            for name in names or self.handlers
            for one in self._queue(name).receive_messages(max_messages=32, messages_per_page=32)
        ]
        for name, one in found:
            self.handlers[name](Delivery(queue=name, message_id=one.id, body=one.content.encode(), count=1))
            self._queue(name).delete_message(one)
        return found

    def _feed(self):
        letters = self.bus.waiting("permits")
        self.bus.complete(letters)
        for _ in letters:
            self.feeder.follow()
        return letters

    def go_on(self, seconds):
        """Let time pass and others work, as while a feeder rests."""
        self.clock.advance(seconds=seconds)
        return self.deliver(), self._settle()

    def _settle(self):
        letters = self.bus.waiting("results")[: self.settles_at_once]
        if letters:
            self.app.settle([Received(one.body.encode(), one.id) for one in letters])
            self.bus.complete(letters)
        return letters

    def _queue(self, name):
        return self.others.queues.get_queue_client(name)
