"""Push under the host, on the real bus and storage: jobs complete, whatever becomes of the permits."""

import pytest
from azure.servicebus import ServiceBusMessage

from shared.app import App, Stores
from shared.azure.connections import Connections
from shared.ledger.records import FINISHED, JobState
from shared.messages import Delivery, Permit
from shared.publish import Publisher
from shared.settings import Settings
from shared.signals import BusPermits
from shared.workloads.registry import Workloads
from tests.e2e.test_pipeline import usages, wait_for
from tools.local.stack import StackOptions, running

SETTINGS = {
    "SLUICE_DEQUEUE": "push",
    "SLUICE_CHUNK_ITEMS": "250",
    "SLUICE_WORK_QUEUES": "2",
    # The ticks of a minute within seconds.
    "SLUICE_TICK_SCHEDULE": "*/2 * * * * *",
}


@pytest.fixture(scope="module")
def stack():
    """The app in push mode, with two work queues that no trigger polls."""
    with running(StackOptions(instances=2, settings=SETTINGS)) as started:
        yield started


@pytest.fixture
def connections(stack):
    """Clients of it."""
    with Connections.parse(stack.settings) as made:
        yield made


def publish(connections, job, count):
    """Drop a submission."""
    publisher = Publisher(
        connections.queues.get_queue_client("submissions"), connections.blobs.get_container_client("payloads")
    )
    return publisher.submit(job=job, workload="billing", sums=["quantity"], transactions=usages(count))


def test_a_job_runs_to_its_end(stack, connections):
    """Woken, drained from both queues, settled, finished: every sum is exact, and no trigger had a part in it."""
    sent = publish(connections, "pushed", 10_000)
    job = wait_for(connections, "pushed", FINISHED)
    log = stack.host.log.read_text()
    # Each frame of the publisher has 1,000 transactions: four chunks share it.
    assert (job.state, job.chunks) == (JobState.COMPLETE, 40)
    assert job.totals.accepted.sums["quantity"] == sent.sums["quantity"]
    assert "drain_work succeeded" in log


def test_doubled_and_forged_signals_do_no_harm(connections):
    """Twenty copies of a permit, one beyond every cap and one that is none: the job is exact, and nothing is dead."""
    send = BusPermits(connections)
    send([Permit(slot=0, depth=1, tasks=1)] * 20 + [Permit(slot=999_999)])
    with connections.bus_client() as bus, bus.get_queue_sender("permits") as sender:
        sender.send_messages(ServiceBusMessage(b"\xff no permit"))
    sent = publish(connections, "flooded", 5_000)
    send([Permit(slot=slot % 4, depth=20, tasks=10) for slot in range(20)])
    job = wait_for(connections, "flooded", FINISHED)
    send.close()
    assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, 5_000)
    assert job.totals.accepted.sums["quantity"] == sent.sums["quantity"]
    dead = connections.bus_client()
    with dead, dead.get_queue_receiver("permits", sub_queue="deadletter") as receiver:
        assert receiver.peek_messages(1) == []


class Desk:
    """Takes a message as a queue does, for whoever carries it on by hand."""

    message = b""

    def send_message(self, message, **_):
        """Keep it."""
        self.message = message.encode()
        return self

    id = "m"


def test_the_tick_finds_work_for_which_every_signal_was_lost(stack, connections):
    """The dispatch woke nobody: the next tick does."""
    lost = []

    class Lost(BusPermits):
        """A sender whose every permit is lost."""

        def __call__(self, permits, seconds=0.0, /):
            lost.extend(permits)
            return 0

    settings = Settings.parse(stack.settings)
    stores = Stores(connections)
    stores.send_permits = Lost(connections)
    app = App(connections, settings, Workloads.load(settings.workloads, stack.settings), stores=stores)
    # On no queue, so that this process accepts and dispatches it and not the app.
    desk = Desk()
    publisher = Publisher(desk, connections.blobs.get_container_client("payloads"))
    publisher.submit(job="lost", workload="billing", transactions=usages(2_000))
    app.accept(Delivery(queue="submissions", message_id="m", body=desk.message, count=1))
    job = wait_for(connections, "lost", FINISHED)
    assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, 2_000)
    assert lost
