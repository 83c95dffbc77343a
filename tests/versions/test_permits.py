"""Permits of two versions over one bus: both send to one queue, and drain the same queues."""

import threading
from contextlib import ExitStack

import pytest
from azure.servicebus import ServiceBusReceiveMode
from servicebus_local.launcher import Broker

from shared.topology import PERMITS, topology
from tests.versions.loading import find_today
from tests.waiting import LIMIT, until
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision
from tools.local.stack import settings_for

CAP, SECONDS = 4, 2


@pytest.fixture(scope="module")
def settings():
    """The connections of a storage and a bus, with the entities of today."""
    with Azurite.start() as azurite:
        provision(azurite.connection_string, topology())
        broker = Broker.start()
        yield settings_for(azurite.connection_string, broker.connection_string)
        broker.stop()


class Version:
    """The permits of one version, and its worker."""

    def __init__(self, find, settings, handle):
        self._find = find
        self.connections = find("azure.connections").Connections.parse(settings)
        self.drain = self._drain_of(handle)

    def _drain_of(self, handle):
        permits, clock = self._find("dequeue.permits"), self._find("clock").SystemClock()
        queue = self.connections.queues.get_queue_client("work-00")
        return self._find("dequeue.drain").Drain(
            sources=[self._find("dequeue.work_queue").WorkQueue(queue, clock, SECONDS)],
            handle=handle,
            fleet=permits.SlotPlan(rule=lambda depth: CAP, cap=lambda: CAP, tasks=1),
            slots=permits.BlobSlots(self.connections.blobs.get_container_client("permits"), clock),
            send=self._find("signals").BusPermits(self.connections),
            clock=clock,
            visibility=SECONDS,
        )

    def wake(self, slots):
        """Send a permit for each of so many slots."""
        permit = self._find("messages").Permit
        assert self.drain.send([permit(slot=slot, depth=40, tasks=CAP) for slot in range(slots)]) == slots

    def work(self):
        """Follow permits until the drain is stopped."""
        self._find("dequeue.drain").PermitWorker(self.connections, self.drain, lanes=CAP).run()

    def close(self):
        """Close what it keeps."""
        self.drain.send.close()
        self.connections.close()


@pytest.fixture
def versions(release, settings):
    """The last release and today, what they handled by their names, and how many were in work at most."""
    handled, running, most, lock = [], [], [], threading.Lock()

    def handler(name):
        def handle(delivery):
            with lock:
                running.append(name)
                most.append(len(running))
            with lock:
                running.remove(name)
                handled.append((name, delivery.body))

        return handle

    with ExitStack() as opened:
        both = {}
        for name, find in (("before", release[0]), ("today", find_today)):
            both[name] = Version(find, settings, handler(name))
            opened.callback(both[name].close)
        yield both, handled, most


def number_of(connections, queue):
    """Return how many messages are there, and take them."""
    mode, found = ServiceBusReceiveMode.RECEIVE_AND_DELETE, 0
    with connections.bus_client() as bus, bus.get_queue_receiver(queue, receive_mode=mode) as receiver:
        while some := receiver.receive_messages(100, max_wait_time=1):
            found += len(some)
    return found


def test_both_versions_send_to_the_one_queue(versions):
    """So each takes the permits of the other, and none stays behind for a version that has ended."""
    both, _, _ = versions
    both["before"].wake(3)
    both["today"].wake(2)
    assert number_of(both["today"].connections, PERMITS) == 5


def test_both_drain_the_same_queue_by_permits_of_either(versions):
    """On the slots of one fleet: each message once, both at work, and never more at a time than the cap."""
    both, handled, most = versions
    queue = both["today"].connections.queues.get_queue_client("work-00")
    threads = [threading.Thread(target=one.work) for one in both.values()]
    for thread in threads:
        thread.start()
    sent = 0

    def are_both_at_work():
        nonlocal sent
        for one in both.values():
            queue.send_message(str(sent))
            sent += 1
            one.wake(1)
        return {name for name, _ in handled} == set(both)

    try:
        until(are_both_at_work)
        until(lambda: queue.get_queue_properties().approximate_message_count == 0)
    finally:
        for one in both.values():
            one.drain.stop.set()
        for thread in threads:
            thread.join(LIMIT)
    assert sorted(int(body) for _, body in handled) == list(range(sent))
    assert max(most) <= CAP
