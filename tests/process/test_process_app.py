"""The function under a host: a chunk put on the work queue leaves its result, and what is wrong with it is parked."""

import msgspec
import pytest

from shared.app import Stores
from shared.azure.connections import Connections
from shared.messages import decode, encode
from shared.parked.entry import NO_JOB
from shared.pipeline.results import open_content
from shared.settings import Dequeue
from tests.process.world import World
from tests.waiting import until
from tools.local.stack import StackOptions, start_host


@pytest.fixture
def start(stack_settings):
    """Start the app with the host's own trigger, whose permits a storage queue carries, and stop it at the end."""
    hosts = []
    yield lambda **settings: hosts.append(
        start_host(StackOptions(instances=1), {**stack_settings, "SLUICE_DEQUEUE": "trigger", **settings})
    )
    for host in hosts:
        host.stop()


def test_what_is_put_on_the_work_queue_is_processed_or_parked(provisioned, start):
    """Billing runs under the host as it is deployed: rates a chunk, sends the result, and survives rubbish."""
    start()
    lines = [b'{"account":"a","plan":"basic","quantity":"%d"}' % n for n in range(1, 101)]
    world, rubbish = World(provisioned, lines), b"rubbish of this test"
    with Connections(provisioned.connection_string) as connections:
        queue = connections.queues.get_queue_client("work-00")
        queue.send_message(rubbish.decode(), time_to_live=-1)
        body = encode(msgspec.structs.replace(world.message, workload="billing"))
        queue.send_message(body.decode(), time_to_live=-1)
        Stores(connections, dequeue=Dequeue.TRIGGER).wake_workers()
        table = Stores(connections).parked_table
        # Nobody accepted a job of this name. So the settler keeps its result as it came.
        told = until(lambda: next(iter(table.entries(world.job)), None))
        result = decode(table.body(told))
        entry = until(lambda: next((one for one in table.entries(NO_JOB) if table.body(one) == rubbish), None))
    assert (told.reason, result.accepted.items) == ("result_of_unknown_job", 100)
    assert result.accepted.sums == {"quantity": "5050"}
    assert open_content(world.job, result.content, result.hash)
    assert (entry.reason, entry.queue) == ("unreadable", "work-00")


@pytest.mark.ci("two instances die, and what they held is hidden for a while after each")
def test_a_chunk_that_ends_each_instance_is_parked_with_its_transaction(provisioned, start):
    """Two instances end with it. The third delivery runs in a process of its own, and the instance lives."""
    start(SLUICE_WORKLOADS="tests.process.suspects:Suspect", HOW="segfault", AMOUNTS="4.10")
    world = World(provisioned)
    with Connections(provisioned.connection_string) as connections:
        queue = connections.queues.get_queue_client("work-00")
        queue.send_message(encode(msgspec.structs.replace(world.message, workload="suspect")).decode(), time_to_live=-1)
        stores = Stores(connections, dequeue=Dequeue.TRIGGER)
        stores.wake_workers()
        entry = until(lambda: next(iter(stores.parked_table.entries(world.job)), None))
    assert (entry.reason, entry.attempts, entry.failed_item) == ("killed_its_worker", 3, 104)
    assert "SIGSEGV after" in entry.found


def test_a_chunk_with_limits_leases_lots(provisioned, start):
    """No more than the setting says, and it gives them back at its end."""
    start(SLUICE_WORKLOADS="tests.process.limits_process:Calling", SLUICE_LIMITS="bank=32/s")
    world = World(provisioned)
    with Connections(provisioned.connection_string) as connections:
        queue = connections.queues.get_queue_client("work-00")
        queue.send_message(encode(msgspec.structs.replace(world.message, workload="calling")).decode(), time_to_live=-1)
        stores = Stores(connections, dequeue=Dequeue.TRIGGER)
        stores.wake_workers()
        until(lambda: next(iter(stores.parked_table.entries(world.job)), None))
        lots = {blob.name for blob in stores.container("permits").list_blobs(name_starts_with="rate-bank-")}
        until(lambda: not stores.slots.list_leased_lots("bank"))
    assert lots
    assert lots <= {"rate-bank-000", "rate-bank-001"}
