"""A worker process: permits over the real bus, slots on leases of real storage, and the end by a signal."""

import itertools
import json
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from azure.servicebus import ServiceBusMessage
from azure.storage.blob import BlobLeaseClient

from shared.azure.connections import Connections
from shared.dequeue.drain import PermitWorker
from shared.messages import Permit
from shared.signals import BusPermits
from tests.dequeue.drain_process import CAP, VISIBILITY, drain_of
from tests.forked import ForkedBroker
from tests.waiting import LIMIT, until

_numbers = itertools.count(1)


@pytest.fixture
def queue(connections):
    """A queue of this test's own beside the permits' slots."""
    client = connections.queues.create_queue(f"work-of-worker-{next(_numbers)}")
    yield client
    client.delete_queue()


class Running:
    """A worker in a thread of this process."""

    def __init__(self, connections, handle, queue, lanes=4):
        self.stop = threading.Event()
        drain = replace(drain_of(connections, handle, queue.queue_name), stop=self.stop)
        self.thread = threading.Thread(target=PermitWorker(connections, drain, lanes=lanes).run)

    def __enter__(self):
        """Start it."""
        self.thread.start()
        return self

    def __exit__(self, *_):
        """End it as a signal of the system does."""
        self.stop.set()
        self.thread.join(LIMIT)
        assert not self.thread.is_alive()


def is_empty(queue):
    """Return whether no message is left, in work or not."""
    return queue.get_queue_properties().approximate_message_count == 0


def put(queue, number):
    """Put messages."""
    for name in range(number):
        queue.send_message(str(name))


def test_permits_are_followed_and_completed(connections, queue):
    """Doubled, forged, beyond the cap, or none at all: the messages are handled once, within the cap, and nothing is dead."""
    lock, now, most, handled = threading.Lock(), [], [], []

    def handle(delivery):
        with lock:
            now.append(1)
            most.append(len(now))
        time.sleep(0.02)
        with lock:
            now.pop()
            handled.append(delivery.body)

    put(queue, 40)
    send = BusPermits(connections)
    send([Permit(slot=slot % 6, depth=40, tasks=4) for slot in range(24)] + [Permit(slot=999_999)])
    with connections.bus_client() as bus, bus.get_queue_sender("permits") as sender:
        sender.send_messages(ServiceBusMessage(b"\xff no permit"))
    with Running(connections, handle, queue), Running(connections, handle, queue):
        until(lambda: is_empty(queue))
    send.close()
    assert sorted(map(int, handled)) == list(range(40))
    assert max(most) <= CAP
    dead = connections.bus_client()
    with dead, dead.get_queue_receiver("permits", sub_queue="deadletter") as receiver:
        assert receiver.peek_messages(1) == []


def test_without_a_bus_the_queues_are_checked(connections, queue, caplog):
    """No permit can come: what was put is found all the same, and the log says why it polls, once."""
    broker = ForkedBroker.start()
    broker.stop()
    handled = []
    put(queue, 5)
    with (
        Connections(connections._storage, broker.connection_string) as away,
        Running(away, lambda delivery: handled.append(delivery.body), queue),
    ):
        until(lambda: is_empty(queue))
    assert len(handled) == 5
    assert caplog.text.count("sluice.worker.polling") == 1


def test_at_the_end_each_task_ends_after_its_message_and_hands_over(connections, queue):
    """What was received and not begun can be had at once, the slot is free, and a permit wakes another worker."""
    begun, go, handled = threading.Event(), threading.Event(), []

    def handle(delivery):
        handled.append(delivery.body)
        begun.set()
        go.wait(LIMIT)

    put(queue, 3)
    send = BusPermits(connections)
    send([Permit(slot=0, depth=3, tasks=1)])
    with Running(connections, handle, queue, lanes=1) as worker:
        assert begun.wait(LIMIT)
        worker.stop.set()
        go.set()
    assert (len(handled), len(queue.peek_messages(5))) == (1, 2)
    assert drain_of(connections, handle, queue.queue_name).slots.list_held() == frozenset()
    with Running(connections, handle, queue, lanes=1):
        until(lambda: is_empty(queue))
    send.close()
    assert len(handled) == 3


def test_the_work_of_a_worker_that_is_killed_is_taken_up(connections, queue):
    """Its slot is held until the lease ends, its message and its permit come back, and another worker takes them."""
    put(queue, 1)
    send = BusPermits(connections)
    send([Permit(slot=0, depth=1, tasks=1)])
    settings = json.dumps({"SluiceStorage": connections._storage, "SluiceBus": connections._bus})
    command = [sys.executable, "-m", "tests.dequeue.drain_process", settings, queue.queue_name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as killed:
        assert killed.stdout.readline() == b"begun\n"
        killed.kill()
    handled = []
    # What time does within a minute.
    BlobLeaseClient(connections.blobs.get_blob_client("permits", "000000")).break_lease(0)
    time.sleep(VISIBILITY)
    send([Permit(slot=0, depth=1, tasks=1)])
    with Running(connections, lambda delivery: handled.append(delivery.count), queue):
        until(lambda: is_empty(queue))
    send.close()
    assert handled == [2]
