"""The two work queues that the contract holds for."""

import itertools

import pytest
from servicebus_local.launcher import Broker

from shared.azure.connections import Connections
from shared.clock import SystemClock
from shared.dequeue.work_queue import WorkQueue
from shared.topology import topology
from tests.dequeue.memory_queue import ManualClock, MemoryQueue
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision
from tools.local.stack import settings_for

_numbers = itertools.count(1)
#: Hidden for so many seconds; storage takes whole seconds.
VISIBILITY = 2


class Shifted(SystemClock):
    """The clock of this machine, which a test moves on without waiting."""

    def __init__(self):
        self.by = 0.0

    def monotonic(self):
        """Return the time and what it was moved by."""
        return super().monotonic() + self.by


@pytest.fixture(scope="module")
def connections():
    """Storage and a bus of these tests' own: whoever else runs would take their signals."""
    with Azurite.start() as azurite:
        provision(azurite.connection_string, topology())
        broker = Broker.start()
        with Connections.parse(settings_for(azurite.connection_string, broker.connection_string)) as made:
            yield made
        broker.stop()


@pytest.fixture
def storage_queue(azurite):
    """A queue of this test's own in storage, and its client."""
    with Connections(azurite.connection_string) as connections:
        client = connections.queues.get_queue_client(f"work-of-test-{next(_numbers)}")
        client.create_queue()
        yield client
        client.delete_queue()


@pytest.fixture
def manual_clock():
    """A clock that stands still until it is moved."""
    return ManualClock()


@pytest.fixture
def memory_queue(manual_clock):
    """A queue in memory, by the clock of the test."""
    return MemoryQueue(manual_clock)


class Either:
    """A work queue of one of the two kinds, with what a test does around it."""

    def __init__(self, queue, put, pass_time):
        self.queue, self.put, self.pass_time = queue, put, pass_time

    def renew_for(self, held, seconds):
        """Renew a message for another time than that of the queue."""
        # The stand-in takes the time from the queue.
        self.queue._visibility = held._length = seconds
        held.renew()


@pytest.fixture(params=["memory", "storage"])
def either(request):
    """A work queue whose messages are hidden for two seconds."""
    if request.param == "memory":
        clock = ManualClock()
        queue = MemoryQueue(clock, visibility=VISIBILITY)
        return Either(queue, queue.put, clock.advance)
    import time  # noqa: PLC0415 - only the real queue has a time of its own

    client = request.getfixturevalue("storage_queue")
    queue = WorkQueue(client, SystemClock(), VISIBILITY)
    return Either(queue, lambda *bodies: [client.send_message(body.decode()) for body in bodies], time.sleep)
