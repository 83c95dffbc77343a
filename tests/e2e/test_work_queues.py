"""Several work queues: the setting alone spreads a job over all of them."""

from shared.azure.connections import Connections
from shared.ledger.records import FINISHED, JobState
from shared.publish import Publisher
from tests.e2e.test_pipeline import usages, wait_for
from tools.local.stack import StackOptions, running

QUEUES = 4


def test_a_job_is_spread_over_four_work_queues_and_completes(worker):
    """A permit on the queue `wake` starts tasks that drain all of them, and the job is complete and exact."""
    settings = {"SLUICE_DEQUEUE": "trigger", "SLUICE_WORK_QUEUES": str(QUEUES), "SLUICE_CHUNK_ITEMS": "250"}
    options = StackOptions(worker=worker, instances=2, settings=settings)
    with running(options) as stack, Connections.parse(stack.settings) as connections:
        publisher = Publisher(
            connections.queues.get_queue_client("submissions"), connections.blobs.get_container_client("payloads")
        )
        sent = publisher.submit(job="spread", workload="billing", sums=["quantity"], transactions=usages(8_000))
        job = wait_for(connections, "spread", FINISHED)
        log = stack.host.log.read_text()
    assert job.state is JobState.COMPLETE
    assert job.totals.accepted.sums["quantity"] == sent.sums["quantity"]
    assert "drain_work succeeded" in log
