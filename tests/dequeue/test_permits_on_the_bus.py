"""Permits between processes, over the real bus and on leases of real storage."""

import json
import subprocess
import sys
import time

from azure.servicebus import ServiceBusReceiveMode
from azure.storage.blob import BlobLeaseClient

from shared.azure.connections import Connections
from shared.dequeue.drain import Drained
from shared.dequeue.permits import TopUp
from shared.messages import Permit, decode_permit, encode_permit
from shared.signals import BusPermits
from shared.topology import PERMITS
from tests.dequeue.drain_process import VISIBILITY, drain_of
from tests.forked import ForkedBroker
from tests.waiting import LIMIT


def permits(connections):
    """Take what came on the queue and return the permits."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with connections.bus_client() as bus, bus.get_queue_receiver(PERMITS, receive_mode=mode) as receiver:
        return [decode_permit(b"".join(one.body)) for one in receiver.receive_messages(100, max_wait_time=LIMIT)]


def settings_of(connections):
    """Return what another process needs to reach the same storage and bus."""
    return json.dumps({"SluiceStorage": connections._storage, "SluiceBus": connections._bus})


def test_permits_arrive_where_work_is_listened_for_and_nowhere_else(connections):
    """Not where an instance of 0.3.0 listens for its own; each is an operation of the bus in the count."""
    send, before = BusPermits(connections), connections.meter.tally.total()
    sent = [Permit(slot=slot, depth=5_000, tasks=1_000) for slot in range(250)]
    assert send(sent) == 250
    assert connections.meter.tally.total() == before + 250
    found = []
    while len(found) < len(sent):
        found += permits(connections)
    assert sorted(permit.slot for permit in found) == list(range(250))
    for subscription in ("release", "work"):
        with connections.bus_client() as bus, bus.get_subscription_receiver("signals", subscription) as receiver:
            assert receiver.peek_messages(1) == []
    send.close()


def test_a_bus_that_is_away_costs_a_put_nothing(connections):
    """It is told in the log, and found by the tick."""
    broker = ForkedBroker.start()
    broker.stop()
    with Connections(connections._storage, broker.connection_string) as away:
        assert BusPermits(away)([Permit(slot=0)]) == 0


def test_the_work_of_a_process_that_is_killed_with_its_permit_is_taken_up(connections):
    """Its slot counts as held until its lease ends, then the tick wakes another, which finds the message too."""
    queue = connections.queues.get_queue_client("work-00")
    queue.send_message("m")
    command = [sys.executable, "-m", "tests.dequeue.drain_process", settings_of(connections)]
    killed = subprocess.Popen(
        [*command, encode_permit(Permit(slot=0, depth=1, tasks=1)).decode()], stdout=subprocess.PIPE
    )
    assert killed.stdout.readline() == b"begun\n"
    killed.kill()
    killed.wait()
    killed.stdout.close()
    handled = []
    drain = drain_of(connections, lambda delivery: handled.append(delivery.count))
    tick = TopUp(slots=drain.slots, fleet=drain.fleet, send=drain.send)
    assert tick.run(1, 1) == 0, "a killed holder's lease ends with time only"
    assert drain.run(Permit(slot=0, depth=1, tasks=1)) is Drained.TAKEN
    # What time does within a minute.
    BlobLeaseClient(connections.blobs.get_blob_client("permits", "000000")).break_lease(0)
    time.sleep(VISIBILITY)
    assert tick.run(1, 1) == 1
    [permit] = permits(connections)
    assert drain.run(permit) is Drained.GAVE_UP
    assert (handled, queue.get_queue_properties().approximate_message_count) == ([2], 0)
