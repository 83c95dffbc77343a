"""The page on taking work off the queues: the worker on it runs as it stands."""

import re
import threading

import pytest
from servicebus_local.launcher import Broker

from shared.app import App
from shared.azure.connections import Connections
from shared.messages import Delivery, Permit, decode_permit
from shared.pipeline.settle import Received
from shared.publish import Publisher
from shared.settings import Settings
from shared.topology import topology
from shared.workloads.registry import Workloads
from tests.e2e.test_pipeline import usages
from tests.waiting import LIMIT, until
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision
from tools.local.stack import settings_for

PROGRAM = (ROOT / "docs" / "examples" / "poll.py").read_text()
CHUNKS = 8


@pytest.fixture
def settings():
    """An installation of this test's own, of which no app runs."""
    with Azurite.start() as azurite:
        provision(azurite.connection_string, topology())
        broker = Broker.start()
        yield settings_for(azurite.connection_string, broker.connection_string) | {"SLUICE_CHUNK_ITEMS": "1000"}
        broker.stop()


def test_the_signal_in_the_formats_is_a_permit():
    """What another program sends by that page wakes somebody."""
    examples = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "formats.md").read_text(), re.DOTALL)
    [signal] = [example for example in examples if '"work"' in example]
    assert decode_permit(signal.encode()) == Permit(slot=0, depth=1, tasks=1)


def dispatch(settings, connections):
    """Put the chunks of a job on the work queue, as the app does."""
    parsed = Settings.parse(settings)
    app = App(connections, parsed, Workloads.load(parsed.workloads, settings))
    submissions = connections.queues.get_queue_client("submissions")
    publisher = Publisher(submissions, connections.blobs.get_container_client("payloads"))
    publisher.submit(job="paged", workload="billing", transactions=usages(CHUNKS * 1000))
    while (message := submissions.receive_message()) is not None:
        body = message.content.encode()
        app.accept(Delivery(queue="submissions", message_id=message.id, body=body, count=1))
        submissions.delete_message(message)


def credited(settings, connections):
    """Settle what the worker sent, and return how many chunks of its job are done."""
    parsed = Settings.parse(settings)
    app = App(connections, parsed, Workloads.load(parsed.workloads, settings))
    with connections.bus_client() as client, client.get_queue_receiver("results", max_wait_time=5) as receiver:
        app.settle([Received(b"".join(message.body), message.message_id) for message in receiver])
    return app.stores.ledger.read("paged").done


def test_the_worker_on_the_page_does_the_work_of_a_job(settings):
    """It empties the queue, its results are stored, and it ends when it is told to."""
    page = {}
    exec(PROGRAM, page)
    with Connections.parse(settings) as connections:
        dispatch(settings, connections)
        queue = connections.queues.get_queue_client("work-00")
        assert queue.get_queue_properties().approximate_message_count == CHUNKS
        stop = threading.Event()
        worker = threading.Thread(target=page["work_until"], args=(stop, settings))
        worker.start()
        try:
            until(lambda: not queue.get_queue_properties().approximate_message_count)
        finally:
            stop.set()
            worker.join(LIMIT)
        assert not worker.is_alive()
        assert credited(settings, connections) == CHUNKS
