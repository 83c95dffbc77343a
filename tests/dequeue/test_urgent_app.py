"""A job with a near deadline overtakes a backlog, under the host: by push, with 300 slow chunks before it."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger.records import FINISHED, JobState
from shared.publish import Publisher
from shared.settings import BILLING
from shared.topology import URGENT
from tests.e2e.test_pipeline import wait_for
from tests.waiting import until
from tools.local.stack import StackOptions, running

CHUNKS, TASKS = 300, 4
SETTINGS = {
    "SLUICE_DEQUEUE": "push",
    "SLUICE_CHUNK_ITEMS": "1",
    "SLUICE_WORKLOADS": f"{BILLING},tests.dequeue.slow_workload:Slow",
    # The ticks of a minute within seconds.
    "SLUICE_TICK_SCHEDULE": "*/2 * * * * *",
}


@pytest.fixture
def connections():
    """Clients of an app in push mode that may run four tasks."""
    with running(StackOptions(instances=1, settings=SETTINGS)) as stack, Connections.parse(stack.settings) as made:
        rules = f"version: 1\nrules:\n- {{name: few, tasks: {TASKS}}}\n"
        Stores(made).rules.put(rules)
        # In force once a tick with an open job has read them.
        submit(made, "first", 1)
        until(lambda: Stores(made).fleet.read().rules.version)
        yield made


def submit(connections, job, transactions, **options):
    """Drop a job of as many chunks."""
    queue = connections.queues.get_queue_client("submissions")
    publisher = Publisher(queue, connections.blobs.get_container_client("payloads"))
    numbered = ({"number": number} for number in range(transactions))
    publisher.submit(job=job, workload="slow", transactions=numbered, **options)


@pytest.mark.ci("a stack of its own, and 300 slow chunks")
def test_a_job_with_a_near_deadline_ends_before_the_backlog_that_it_came_behind(connections):
    """It is due long before the end of the backlog, which completes too."""
    fleet, ledger = Stores(connections).fleet, Stores(connections).ledger
    submit(connections, "backlog", CHUNKS)

    # The second report: whoever reports has read what was reported before.
    reports = set()
    until(lambda: reports.update(worker.at for worker in fleet.read().workers if worker.done > 1) or len(reports) > 1)
    deadline = datetime.now(UTC) + timedelta(seconds=10)
    submit(connections, "urgent", TASKS, deadline=deadline)
    urgent = wait_for(connections, "urgent", FINISHED)
    backlog = ledger.read("backlog")
    assert (urgent.state, urgent.lane, backlog.lane) == (JobState.COMPLETE, URGENT, None)
    assert backlog.state not in FINISHED
    assert backlog.ended_chunks < CHUNKS * 0.9
    assert wait_for(connections, "backlog", FINISHED).state is JobState.COMPLETE
    assert connections.queues.get_queue_client(URGENT).get_queue_properties().approximate_message_count == 0
