"""Retention: bytes go when nothing can refer to them any more, and never before."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.ledger.records import JobState
from shared.pipeline.accept import Accepted
from shared.pipeline.retention import RETENTION_POINTER, Retention

PERIOD = timedelta(days=30)


class Parked:
    """A store of parked entries that a test fills."""

    def __init__(self):
        self.open = []

    def entries(self, job=None):
        """Yield what is open."""
        return iter(self.open)


@pytest.fixture
def one(process):
    """A process with which a job is accepted."""
    return process()


@pytest.fixture
def parked():
    """Nothing parked."""
    return Parked()


@pytest.fixture
def retention(world, one, parked):
    """Retention over this world's ledger and the run's containers."""
    containers = [one.connections.blobs.get_container_client(name) for name in ("payloads", "results")]
    return Retention(
        ledger=world.ledger,
        parked=parked,
        pending=one.acceptance.pending,
        containers=containers,
        clock=world.clock,
        period=PERIOD,
    )


def finished(world, one, state=JobState.COMPLETE):
    """Accept a job, write a result of it, and finish it."""
    one.accept(world.submission(), "m1")
    one.connections.blobs.get_container_client("results").upload_blob(f"{world.job}/1/0", b"partial")
    job = replace(world.ledger.read(world.job), state=state, finished_at=world.clock.now())
    return world.ledger.commit(job)


def blobs(world, one):
    """Return the names of all blobs of the job."""
    return [
        blob.name
        for name in ("payloads", "results")
        for blob in one.connections.blobs.get_container_client(name).list_blobs(name_starts_with=f"{world.job}/")
    ]


def due(world, one, days):
    """Return the pointers to this job's end that are due after so many days."""
    moment = world.clock.now() + timedelta(days=days)
    return [
        pointer
        for pointer in one.acceptance.pending.due(moment)
        if (pointer.kind, pointer.id) == (RETENTION_POINTER, world.job)
    ]


def test_a_finished_job_keeps_its_bytes_until_its_time_is_over(world, one, retention):
    """The pointer is due after the retention, not before."""
    retention.begin(finished(world, one))
    assert due(world, one, 29) == []
    assert len(due(world, one, 31)) == 1
    assert blobs(world, one)


def test_after_its_time_only_the_tombstone_is_left(world, one, retention):
    """Payload, plan and results are gone, the pointer too; id and content are still known."""
    retention.begin(finished(world, one))
    (pointer,) = due(world, one, 31)
    assert retention.follow(pointer)
    assert blobs(world, one) == []
    assert due(world, one, 400) == []
    assert world.ledger.read(world.job).state is JobState.BURIED


def test_the_same_submission_after_the_burial_still_runs_once(world, one, retention):
    """The tombstone answers a publisher that drops it again years later."""
    retention.begin(finished(world, one))
    retention.follow(due(world, one, 31)[0])
    assert one.accept(world.submission(), "m2") is Accepted.DUPLICATE


def test_a_job_with_something_parked_is_not_buried(world, one, retention, parked):
    """A replay needs the payload: the job is looked at again tomorrow."""
    retention.begin(finished(world, one, JobState.COMPLETED_WITH_PARKED))
    parked.open.append("an entry")
    (pointer,) = due(world, one, 31)
    assert not retention.follow(pointer)
    assert blobs(world, one)
    assert len(due(world, one, 2)) == 1


def test_a_job_that_a_replay_reopened_is_not_buried(world, one, retention):
    """Another revision is being made from these very bytes."""
    retention.begin(finished(world, one))
    world.ledger.commit(replace(world.ledger.read(world.job), state=JobState.FINISHING, revision=2))
    assert not retention.follow(due(world, one, 31)[0])
    assert blobs(world, one)


def test_a_crash_between_tombstone_and_bytes_is_completed_by_the_next_look(world, one, retention, monkeypatch):
    """The pointer outlasts everything that it leads to."""
    retention.begin(finished(world, one))
    (pointer,) = due(world, one, 31)
    crash = RuntimeError("the process ended here")
    monkeypatch.setattr(type(world.ledger), "remove_rows", lambda *_: (_ for _ in ()).throw(crash))
    with pytest.raises(RuntimeError):
        retention.follow(pointer)
    monkeypatch.undo()
    assert blobs(world, one)
    assert retention.follow(pointer)
    assert blobs(world, one) == []
