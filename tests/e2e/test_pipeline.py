"""The whole way of a transaction, under the host: dropped, held, released, processed, settled, finished."""

import json
import random
from decimal import Decimal

import pytest
import zstandard

from shared.app import Stores
from shared.azure.connections import Connections
from shared.ledger.records import FINISHED, JobState
from shared.publish import Publisher
from tests.waiting import until


@pytest.fixture(scope="module")
def connections(app_stack):
    """Clients of the stack under test."""
    with Connections.parse(app_stack.settings) as made:
        yield made


@pytest.fixture
def publisher(app_host, connections):
    """A publisher beside the running app."""
    return Publisher(
        connections.queues.get_queue_client("submissions"), connections.blobs.get_container_client("payloads")
    )


def usages(count, seed=1, bad_every=0):
    """Yield usage transactions; every so many is one that the workload rejects."""
    dice = random.Random(seed)
    for number in range(count):
        is_bad = bad_every and number % bad_every == 0
        plan = "no-such-plan" if is_bad else "basic"
        yield {"account": f"account-{dice.randrange(40)}", "plan": plan, "quantity": f"{dice.randrange(1, 500)}.25"}


def wait_for(connections, job, states):
    """Wait until the ledger has the job in one of the states, and return it."""
    ledger = Stores(connections).ledger
    return until(lambda: (found := ledger.read(job)) and found.state in states and found)


def lines_of(connections, job, revision):
    """Return the lines of a job's outputs, by part."""
    outputs = connections.blobs.get_container_client("outputs")
    parts = {}
    for blob in outputs.list_blobs(name_starts_with=f"{job}/{revision}/"):
        if blob.name.endswith(".ndjson.zst"):
            content = (
                zstandard.ZstdDecompressor()
                .decompressobj()
                .decompress(outputs.download_blob(blob.name, decompress=False).readall())
            )
            parts[blob.name] = [json.loads(line) for line in content.splitlines()]
    return parts


def test_every_transaction_of_a_job_is_in_its_totals_once(publisher, connections):
    """Ten chunks by claim check: counts and sums come out as they were declared, to the last digit."""
    sent = publisher.submit(job="e2e-blob", workload="billing", sums=["quantity"], transactions=usages(10_000))
    job = wait_for(connections, "e2e-blob", FINISHED)
    assert job.state is JobState.COMPLETE
    assert (job.totals.accepted.items, job.totals.rejected.items) == (10_000, 0)
    assert job.totals.accepted.sums["quantity"] == sent.sums["quantity"]
    assert lines_of(connections, "e2e-blob", job.revision)


def test_the_invoices_add_up_to_the_transactions(publisher, connections):
    """What the outputs say by account is what went in."""
    publisher.submit(job="e2e-sum", workload="billing", sums=["quantity"], transactions=usages(3_000, seed=2))
    job = wait_for(connections, "e2e-sum", FINISHED)
    lines = [line for part in lines_of(connections, "e2e-sum", job.revision).values() for line in part]
    invoiced = sum(Decimal(str(line["quantity"])) for line in lines if "quantity" in line)
    expected = sum(Decimal(usage["quantity"]) for usage in usages(3_000, seed=2))
    assert invoiced == expected


def test_the_least_that_a_person_can_type_is_a_job(app_host, connections):
    """Two transactions in a message without any other field."""
    message = connections.queues.get_queue_client("submissions").send_message(
        '{"sluice": {"items": [{"account": "a", "plan": "basic", "quantity": "1"},'
        ' {"account": "b", "plan": "basic", "quantity": "2"}]}}'
    )
    job = wait_for(connections, message.id.lower(), FINISHED)
    assert (job.state, job.totals.accepted.items) == (JobState.COMPLETE, 2)


def test_bad_transactions_are_rejected_with_reasons_and_do_not_stop_the_good(publisher, connections):
    """One in ten names an unknown plan: in = accepted + rejected, and the outputs say why."""
    publisher.submit(job="e2e-rejects", workload="billing", sums=["quantity"], transactions=usages(2_000, bad_every=10))
    job = wait_for(connections, "e2e-rejects", FINISHED)
    assert (job.state, job.totals.accepted.items, job.totals.rejected.items) == (JobState.COMPLETE, 1_800, 200)
    rejects = [name for name in lines_of(connections, "e2e-rejects", job.revision) if "reject" in name]
    assert rejects


def test_a_job_behind_a_gate_waits_and_is_released(publisher, connections):
    """Planned and held before the release; complete soon after it."""
    publisher.submit(job="e2e-held", workload="billing", gate="e2e", transactions=usages(2_500))
    held = wait_for(connections, "e2e-held", {JobState.HELD})
    assert (held.chunks, held.dispatch_cursor) == (3, 0)
    Stores(connections).gate_operator.open("e2e", by="test", why="to see it run")
    assert wait_for(connections, "e2e-held", FINISHED).totals.accepted.items == 2_500


def test_a_submission_that_cannot_be_accepted_is_parked_with_its_reason(app_host, connections):
    """Nothing disappears: what is refused is kept with why, and others are not held up."""
    message = connections.queues.get_queue_client("submissions").send_message('{"sluice": {"v": 99, "items": [1]}}')
    table = Stores(connections).parked_table
    found = until(lambda: [entry for entry in table.entries() if entry.message_id == message.id])
    assert found[0].reason == "unsupported_version"
