"""A job that grows beside an instance of the release before: it credits chunks, and never ends the job."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shared.ledger.entities import job_entity, job_of
from shared.ledger.records import Job, JobState, PlanBlob
from shared.messages import FileRange, encode
from shared.payload import MIB, PayloadFields, Ranges, SubmissionFields, write_submission

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
JOB = Job(
    job="meters", content_hash="x", workload="sales", accepted_at=NOON, started_at=NOON, state=JobState.DISPATCHING,
    plan=PlanBlob("p", "e", "plans"), items=6, chunks=2, dispatch_cursor=2, growing=True, stretches=1, chain="c",
)  # fmt: skip


@pytest.fixture
def before(release):
    """The modules of the release before."""
    find, _ = release
    if hasattr(find("payload").PayloadFields(), "stretches"):
        pytest.skip("this release knows stretches")
    return find


def test_a_submission_in_stretches_is_parked_until_the_update(before):
    """By its field: replay it when the app knows it."""
    body = write_submission(SubmissionFields(job="meters", payload=PayloadFields(stretches=True)))
    payload = before("payload")
    with pytest.raises(before("errors").RefusedError) as refused:
        payload.read_submission(payload.open_envelope(body, payload.Limits()), "m", payload.Limits())
    assert refused.value.reason == "unknown_field"


def test_all_chunks_have_ended_and_its_settler_does_not_end_it(before):
    """Their number is more than any job has. What it writes keeps the columns of a growing job."""
    entities, ledger, messages = before("ledger.entities"), before("ledger"), before("messages")
    found = entities.job_of(job_entity(JOB), "")
    for chunk in range(2):
        result = messages.Result(job="meters", chunk=chunk, revision=1, blob=f"meters/1/{chunk}", hash="0" * 64)
        found = ledger.settle(found, {}, [result], NOON).job
    again = job_of(entities.job_entity(found), "")
    assert (again.state, again.done, again.chunks) == (JobState.DISPATCHING, 2, 2)
    assert (again.growing, again.stretches, again.chain, again.has_ended) == (True, 1, "c", False)


def test_its_dispatcher_leaves_the_job_to_a_newer_one(before):
    """It notes its cursor, and the job is not taken for running."""
    entities, ledger = before("ledger.entities"), before("ledger")
    found = ledger.advance_cursor(entities.job_of(job_entity(replace(JOB, dispatch_cursor=0)), ""), 2, NOON)
    assert job_of(entities.job_entity(found), "").state is JobState.DISPATCHING


def test_its_worker_waits_for_a_newer_one_with_a_range(before):
    """By its kind: it is delivered again, and parked after ten minutes."""
    body = encode(FileRange(job="usage", stretch=3))
    delivery = before("messages").Delivery(queue="work-00", message_id="m", body=body, count=1)
    with pytest.raises(before("errors").NewerVersionError, match="range"):
        before("pipeline.process")._read(delivery)


def test_it_keeps_the_ranges_of_a_file_in_the_row(before):
    """With the columns of a growing job, which it does not know either."""
    job = replace(JOB, file="uploads/usage", ranges=Ranges("0x8D", 1_700_000_000, 64 * MIB, "d41d"))
    entities = before("ledger.entities")
    again = job_of(entities.job_entity(entities.job_of(job_entity(job), "")), "")
    assert (again.ranges, again.file, again.growing) == (job.ranges, job.file, True)
