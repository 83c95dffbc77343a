"""A message on a work queue that no instance was woken for: the real tick finds it, with and without a pointer."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from shared.app import App, Stores
from shared.azure.connections import Connections
from shared.messages import Finish, encode
from shared.parked import QueuesPut
from shared.pending import WORK_POINTER
from shared.pipeline.sweep import HOURLY_AT
from shared.telemetry import events
from shared.workloads.registry import Workloads
from tests.faults.memory.storage import CONNECTION_STRING, MemoryStorage
from tests.faults.plan import Plan
from tests.faults.world import NOON, SETTINGS, ManualClock

LATE = encode(Finish(job="ended", revision=1))
ENTRY = SimpleNamespace(queue="work-00", job="ended", key="finish-1")


class Permits(list):
    """Keeps what is sent."""

    def __call__(self, permits, seconds=0.0):
        """Keep them, and return their number."""
        self.extend(permits)
        return len(permits)

    def close(self):
        """Nothing to close."""


class Installation:
    """An app in memory without an open job; its permits are kept."""

    def __init__(self):
        storage, self.clock, self.permits, self.plan = MemoryStorage(), ManualClock(), Permits(), Plan()
        self.connections = Connections(CONNECTION_STRING, transport=lambda: storage.transport(self.plan))
        self.stores = Stores(self.connections, clock=self.clock, parallel=1)
        self.stores.send_permits = self.permits
        self.app = App(self.connections, SETTINGS, Workloads([]), stores=self.stores)
        self.queue = self.connections.queues.get_queue_client("work-00")
        self.clock.advance(minutes=HOURLY_AT + 1)
        # A process finds out at its first tick whether the index of causes is to be compared.
        self.stores.cause_check.run(1, timedelta(days=30))

    def tick(self, minutes=1):
        """Run the tick some minutes later, and return what it requested."""
        self.clock.advance(minutes=minutes)
        before = len(self.plan.kinds)
        self.app.tick()
        return sorted(self.plan.kinds[before:])

    def pointers(self):
        """Return the queues that have a pointer."""
        due = self.stores.pending.due(self.clock.now() + timedelta(days=1))
        return [pointer.id for pointer in due if pointer.kind == WORK_POINTER]


@pytest.fixture
def installation():
    """An idle installation."""
    made = Installation()
    yield made
    made.app.close()
    made.connections.close()


IDLE = ["GET held", "GET pending"]
#: Each quarter of an hour, the first tick included, the recorder has a point.
RECORDED = sorted([*IDLE, "PATCH decisions"])


def test_a_message_without_a_pointer_is_found_within_the_hour(installation, told):
    """Nobody left a word: once an hour the depths are read, permits are sent, and a person is told."""
    installation.queue.send_message("{}", time_to_live=-1)
    assert installation.tick() == RECORDED
    assert (installation.permits, told(events.WORK_STRANDED)) == ([], [])
    installation.tick(minutes=58)
    assert [permit.slot for permit in installation.permits] == [0]
    assert told(events.WORK_STRANDED) == [{"queues": ["work-00"], "messages": 1}]


def test_the_hourly_look_costs_an_idle_installation_one_request_a_queue(installation):
    """In either mode: no host polls them."""
    installation.clock.at = NOON + timedelta(minutes=HOURLY_AT - 1)
    assert installation.tick() == sorted([*RECORDED, "GET work-00", "GET work-urgent"])


def test_what_is_put_back_for_a_job_that_ended_is_found_at_the_next_tick(installation, told):
    """The bus was away, so nobody was woken: the pointer counts as an open job until the queue is empty."""
    put = QueuesPut(installation.connections.queues, installation.stores.held_work._point)
    put(ENTRY, LATE)
    put(ENTRY, LATE)
    assert installation.pointers() == ["work-00"]
    installation.tick()
    assert [permit.slot for permit in installation.permits] == [0]
    for _ in range(5):
        installation.tick()
    assert installation.pointers() == ["work-00"]
    installation.queue.clear_messages()
    installation.tick(minutes=4)
    assert installation.pointers() == []
    # The cost of that work is read once more.
    installation.clock.at = NOON + timedelta(hours=2)
    assert "GET usage" in installation.tick()
    installation.permits.clear()
    installation.clock.at = NOON + timedelta(hours=3)
    assert installation.tick() == RECORDED
    assert (installation.permits, told(events.WORK_STRANDED)) == ([], [])


def test_the_pointer_is_there_before_the_message(installation):
    """A process that ends in between leaves a look at an empty queue, and never a message without one."""
    put, before = (
        QueuesPut(installation.connections.queues, installation.stores.held_work._point),
        len(installation.plan.kinds),
    )
    put(ENTRY, LATE)
    assert installation.plan.kinds[before:] == ["PUT pending", "POST work-00"]


def test_held_work_of_others_leaves_a_pointer_too_and_a_submission_does_not(installation):
    """Only a work queue has no poll of its own."""
    operator = installation.stores.gate_operator
    operator.open("nightly", by="ann")
    installation.stores.held_work.hold("nightly", "theirs", "work-00", "{}")
    assert installation.pointers() == ["work-00"]
    installation.stores.held_work.hold("nightly", "other", "submissions", "{}")
    assert installation.pointers() == ["work-00"]
