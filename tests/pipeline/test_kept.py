"""What the app keeps for a job, its plan and what it framed anew, lies where no publisher writes."""

import dataclasses
import json

import pytest
from azure.storage.blob import ContainerClient, ContainerSasPermissions, generate_container_sas
from msgspec import structs

from shared.ledger.entities import job_entity, job_of
from shared.ledger.records import Job, PlanBlob
from shared.memory import Memory
from shared.messages import decode, encode
from shared.payload.payload_store import PayloadStores
from shared.payload.reading import WORK, PayloadReader
from shared.pipeline.plan import PlanStore
from shared.topology import PLANS, payload_container
from tests.pipeline.conftest import NOON

#: What a publisher's role lets it do to the blobs of its container.
ALL_OF_ONE = ContainerSasPermissions(read=True, add=True, create=True, write=True, delete=True, list=True)
LINES = [b'{"amount": "1.10", "n": %d}' % n for n in range(25)]


@pytest.fixture
def publisher(provisioned):
    """A publisher, with everything that its role allows in its container."""
    account, address = provisioned.account, provisioned.account.endpoints(provisioned.ports)["blob"]
    container = payload_container()
    token = generate_container_sas(
        account.name, container, account.key, permission=ALL_OF_ONE, expiry="2099-01-01T00:00:00Z"
    )
    with ContainerClient.from_container_url(f"{address}/{container}?{token}") as client:
        yield client


@pytest.fixture
def of_a_file(world, publisher):
    """A submission of a file without an index, which the app frames anew."""
    publisher.upload_blob(f"up/{world.job}", b"\n".join(LINES))
    return json.dumps({"sluice": {"job": world.job, "payload": {"blob": f"up/{world.job}"}}}).encode()


def kept_of(one, world):
    """Return what the app keeps for the job."""
    return [*one.connections.blobs.get_container_client(PLANS).list_blob_names(name_starts_with=f"{world.job}/")]


def lines_of(one, messages):
    """Return the lines that workers read for these messages."""
    read = PayloadReader(PayloadStores(one.connections.blobs.get_container_client), Memory(WORK))
    found = []
    for body in messages:
        with read(decode(json.dumps({"sluice": body}))) as parts:
            found += [line for part in parts for line in part]
    return found


def test_a_publisher_that_writes_and_deletes_all_it_may_changes_no_plan(world, process, publisher, of_a_file):
    """Every name of the job, written before and after it was accepted: its chunks go out as they were planned."""
    one, other = process(), process()
    one.plan(of_a_file, "m1")
    plan = world.ledger.read(world.job).plan
    kept = kept_of(one, world)
    assert plan.name in kept
    assert len(kept) == 2
    for name in kept:
        publisher.upload_blob(name, b"forged", overwrite=True)
    publisher.delete_blob(f"up/{world.job}")
    assert other.dispatch(world.job)
    assert lines_of(other, world.queues.on("work-")) == LINES


def test_names_that_were_written_beforehand_are_nobodys_business(world, process, publisher, of_a_file):
    """A publisher that computed the names of plan and payload first gains nothing: they are another container's."""
    rehearsed = process()
    rehearsed.plan(of_a_file, "m1")
    forged = kept_of(rehearsed, world)
    plans = rehearsed.connections.blobs.get_container_client(PLANS)
    for name in forged:
        plans.delete_blob(name)
        publisher.upload_blob(name, b"forged")
    # The same submission again, as if the first had never been.
    world.ledger = type(world.ledger)()
    one = process()
    one.plan(of_a_file, "m2")
    assert one.dispatch(world.job)
    assert lines_of(one, world.queues.on("work-")) == LINES


def test_a_plan_and_a_payload_of_before_are_found_where_they_were(world, process, of_a_file):
    """A row that says no container has its plan beside the payload; a plan that says nothing has its payload there."""
    one = process()
    one.plan(of_a_file, "m1")
    job, blobs = world.ledger.read(world.job), one.connections.blobs
    plan = PlanStore(blobs.get_container_client).read(world.job, job.plan)
    before = structs.replace(plan, source=structs.replace(plan.source, is_kept=False))
    content = before.encode()
    assert b"is_kept" not in content
    for name in kept_of(one, world):
        stored = blobs.get_blob_client(PLANS, name).download_blob().readall()
        blobs.get_blob_client("payloads", name).upload_blob(stored)
        blobs.get_blob_client(PLANS, name).delete_blob()
    written = PlanStore(blobs.get_container_client).put(before)
    blobs.get_blob_client("payloads", written.name).upload_blob(content)
    blobs.get_blob_client(PLANS, written.name).delete_blob()
    world.ledger.commit(dataclasses.replace(job, plan=PlanBlob(written.name, written.etag)))
    assert one.dispatch(world.job)
    assert lines_of(one, world.queues.on("work-")) == LINES


def test_a_work_message_says_where_its_bytes_are(world, process, of_a_file):
    """Without their bytes in it, and only where they are the app's own: a message of before says nothing."""
    one = process()
    one.accept(of_a_file, "m1")
    plan = one.acceptance.plans.read(world.job, world.ledger.read(world.job).plan)
    message = plan.message(0, 1)
    assert message.is_kept
    assert b"is_kept" not in encode(structs.replace(message, is_kept=False))
    assert lines_of(one, [json.loads(encode(message))["sluice"]]) == LINES[:25]


def test_a_row_of_before_has_its_plan_beside_the_payload():
    """Written by a version that knew one container, and read by this one."""
    job = Job(job="a", content_hash="h", workload="billing", accepted_at=NOON, plan=PlanBlob("a/plan", "e", PLANS))
    row = job_entity(job)
    assert job_of(row, "").plan == job.plan
    del row["plan_container"]
    assert job_of(row, "").plan == PlanBlob("a/plan", "e", "payloads")
