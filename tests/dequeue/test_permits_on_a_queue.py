"""Permits on the storage queue `wake`: each is a message that a trigger delivers, and one that expires."""

from datetime import timedelta

import pytest

from shared.app import App, Stores
from shared.azure.connections import Connections
from shared.ledger.records import FINISHED, JobState
from shared.messages import Permit, decode_permit
from shared.publish import Publisher
from shared.settings import Dequeue, Settings
from shared.telemetry import events
from shared.topology import SIGNAL_LIFE, WAKE
from shared.workloads.registry import Workloads
from tests.e2e.test_pipeline import usages, wait_for
from tests.waiting import until
from tools.local.stack import StackOptions, running

PERMITS = [Permit(slot=slot, depth=7, tasks=8) for slot in range(2)]


@pytest.fixture
def wake(connections):
    """The queue, empty."""
    queue = connections.queues.get_queue_client(WAKE)
    queue.clear_messages()
    return queue


def test_each_permit_is_a_message_that_expires(connections, wake):
    """Ten minutes later, as on the bus: a host that comes back finds no old ones."""
    assert Stores(connections, dequeue=Dequeue.TRIGGER).send_permits(PERMITS) == 2
    found = list(wake.receive_messages())
    assert [decode_permit(one.content.encode()) for one in found] == PERMITS
    assert all(abs(one.expires_on - one.inserted_on - SIGNAL_LIFE) < timedelta(seconds=2) for one in found)


def test_permits_that_storage_does_not_take_are_left_to_the_tick(connections, told):
    """The put was safe before, so nothing is raised."""
    stores = Stores(connections, dequeue=Dequeue.TRIGGER)
    stores.send_permits._queue = connections.queues.get_queue_client("no-such-queue")
    assert stores.send_permits(PERMITS) == 0
    assert [one["permits"] for one in told(events.PERMITS_UNSENT)] == [2]


def test_by_trigger_the_tick_finds_work_for_which_every_permit_was_lost():
    """And the host's trigger follows the one that it sends."""
    settings = {"SLUICE_DEQUEUE": "trigger", "SLUICE_TICK_SCHEDULE": "*/2 * * * * *", "SLUICE_CHUNK_ITEMS": "250"}
    off = {"AzureWebJobs.accept_submission.Disabled": "true", "AzureWebJobs.accept_hinted.Disabled": "true"}
    with (
        running(StackOptions(instances=1, settings=settings | off)) as stack,
        Connections.parse(stack.settings) as made,
    ):
        publisher = Publisher(made.queues.get_queue_client("submissions"), made.blobs.get_container_client("payloads"))
        sent = publisher.submit(job="lost", workload="billing", sums=["quantity"], transactions=usages(2_000))
        parsed = Settings.parse(stack.settings)
        with App(made, parsed, Workloads.load(parsed.workloads, stack.settings)) as app:
            app.stores.send_permits._queue = made.queues.get_queue_client("no-such-queue")
            app.accept_hinted()
            until(lambda: app.stores.ledger.read("lost"))
        job = wait_for(made, "lost", FINISHED)
    assert job.state is JobState.COMPLETE
    assert job.totals.accepted.sums["quantity"] == sent.sums["quantity"]
