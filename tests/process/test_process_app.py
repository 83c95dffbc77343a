"""The function under a host: a chunk put on the work queue leaves its result, and rubbish is parked."""

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
def by_trigger(stack_settings):
    """The app with the host's own trigger, whose permits a storage queue carries."""
    host = start_host(StackOptions(instances=1), {**stack_settings, "SLUICE_DEQUEUE": "trigger"})
    yield host
    host.stop()


@pytest.mark.usefixtures("by_trigger")
def test_what_is_put_on_the_work_queue_is_processed_or_parked(provisioned):
    """Billing runs under the host as it is deployed: rates a chunk, sends the result, and survives rubbish."""
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
