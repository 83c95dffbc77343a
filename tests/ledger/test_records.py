"""A job takes from its submission the fields that are marked as given, and keeps from its burial those marked as kept."""

from dataclasses import fields, replace

from shared.ledger.job_decisions import bury
from shared.ledger.records import Job, JobState, select_fields
from shared.payload.submission import Declared, Items, Submission
from tests.ledger.golden import FULL_JOB, moment

#: Fields of a submission that a job has in another form: only its sums, its items by its plan, its own trace, all jobs that it waits for.
IN_ANOTHER_FORM = {"declared", "content", "trace", "after"}


def test_every_field_of_a_submission_is_copied_into_its_job():
    """One that is added to the submission alone is missing here, and one that is only marked has nowhere to come from."""
    assert set(select_fields(Job, "given")) == {one.name for one in fields(Submission)} - IN_ANOTHER_FORM


def test_a_job_is_accepted_as_its_submission_says():
    """The fields by name, the declared sums, and what only the acceptance knows."""
    declared = Declared(items=2, sums=FULL_JOB.declared)
    given = {name: getattr(FULL_JOB, name) for name in select_fields(Job, "given")}
    submission = Submission(**given, declared=declared, content=Items((b"{}",)), trace="the publisher's")
    accepted = Job.accept(submission, "c0ffee", moment(1), "ours")
    values = {"content_hash": "c0ffee", "accepted_at": moment(1), "declared": FULL_JOB.declared, "trace": "ours"}
    assert accepted == Job(**given, **values)


def test_a_tombstone_keeps_what_knows_the_submission_again_and_what_the_job_cost():
    """Everything else has its default: nothing of a publisher's data outlives the retention."""
    tombstone = bury(replace(FULL_JOB, etag="e"))
    named = {"job", "content_hash", "workload", "accepted_at", "finished_at", "plan", "revision", "chunks", "items"}
    kept = {name: getattr(FULL_JOB, name) for name in (*named, "requests", "nonce")}
    assert tombstone == Job(**kept, state=JobState.BURIED, ended="completed_with_parked", etag="e")
