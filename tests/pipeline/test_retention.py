"""Retention: bytes go when nothing can refer to them any more, and never before."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

import pytest

from shared.errors import StorageUnavailableError
from shared.ledger.records import JobState
from shared.parked.entry import EntryState
from shared.pending import RETENTION_POINTER
from shared.pipeline.accept import Accepted
from shared.pipeline.removal.cleanup import SECOND_CHECK, Retention
from shared.pipeline.removal.job_bytes import JobBytes

PERIOD = timedelta(days=30)
#: A look that has all the time it wants.
LONG = float("inf")


@dataclass
class Claim:
    """What is parked, as far as a burial asks."""

    stage: str
    state: str = EntryState.OPEN
    revision: int | None = None


class Parked:
    """A store of parked entries that a test fills."""

    def __init__(self):
        self.open, self.closed = [], []

    def entries(self, job=None):
        """Yield what is open."""
        return iter(self.open)

    def change(self, _known, changed):
        """Note what is closed."""
        self.closed.append(changed)
        return changed


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
    return Retention(
        ledger=world.ledger,
        parked=parked,
        pending=one.acceptance.pending,
        bytes=JobBytes(
            ledger=world.ledger, plans=one.acceptance.plans, container=one.connections.blobs.get_container_client
        ),
        forget_night=lambda _job: None,
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
    assert retention.follow(pointer, LONG)
    assert blobs(world, one) == []
    assert world.ledger.read(world.job).state is JobState.BURIED


def test_what_a_late_settler_left_goes_at_a_second_check_a_day_later(world, one, retention):
    """It had read the job before the burial: no row names its blob. The second check is the last one."""
    retention.begin(finished(world, one))
    retention.follow(due(world, one, 31)[0], LONG)
    one.connections.blobs.get_container_client("results").upload_blob(f"{world.job}/groups/late", b"partial")
    assert due(world, one, 0) == []
    (pointer,) = due(world, one, 1)
    assert retention.follow(pointer, LONG)
    assert (blobs(world, one), due(world, one, 400)) == ([], [])


def test_the_same_submission_after_the_burial_still_runs_once(world, one, retention):
    """The tombstone answers a publisher that drops it again years later."""
    retention.begin(finished(world, one))
    retention.follow(due(world, one, 31)[0], LONG)
    assert one.accept(world.submission(), "m2") is Accepted.DUPLICATE


def test_a_job_with_something_parked_is_not_buried(world, one, retention, parked):
    """A replay needs the payload: the job is looked at again tomorrow."""
    retention.begin(finished(world, one, JobState.COMPLETED_WITH_PARKED))
    parked.open.append(Claim("process"))
    (pointer,) = due(world, one, 31)
    assert not retention.follow(pointer, LONG)
    assert blobs(world, one)
    assert len(due(world, one, 2)) == 1


def test_a_job_that_a_replay_reopened_is_not_buried(world, one, retention):
    """Another revision is being made from these very bytes."""
    retention.begin(finished(world, one))
    world.ledger.commit(replace(world.ledger.read(world.job), state=JobState.FINISHING, revision=2))
    assert not retention.follow(due(world, one, 31)[0], LONG)
    assert blobs(world, one)


def test_a_crash_between_tombstone_and_bytes_is_completed_by_the_next_look(world, one, retention, monkeypatch):
    """The pointer outlasts everything that it leads to."""
    retention.begin(finished(world, one))
    (pointer,) = due(world, one, 31)
    crash = RuntimeError("the process ended here")
    monkeypatch.setattr(type(world.ledger), "remove_rows", lambda *_: (_ for _ in ()).throw(crash))
    with pytest.raises(RuntimeError):
        retention.follow(pointer, LONG)
    monkeypatch.undo()
    assert blobs(world, one)
    assert retention.follow(pointer, LONG)
    assert blobs(world, one) == []


def test_burying_a_job_removes_what_it_owns_and_nothing_else(world, one, retention):
    """It may be called as others call their folder: what they wrote a moment ago stays, whatever it is called."""
    stored = b"".join(json.dumps({"n": n}).encode() + b"\n" for n in range(3))
    sha = hashlib.sha256(stored).hexdigest()
    frames = [[0, len(stored), 3, sha]]
    index = json.dumps(frames, separators=(",", ":")).encode()
    payload = {"blob": f"{world.job}/{sha}", "codec": "plain", "index": hashlib.sha256(index).hexdigest()}
    container = one.connections.blobs.get_container_client("payloads")
    container.upload_blob(payload["blob"], stored)
    container.upload_blob(f"{world.job}/{payload['index']}", index)
    others = {f"{world.job}/usage.ndjson", f"{world.job}/{'1' * 64}"}
    for name in others:
        container.upload_blob(name, b"of somebody else")
    one.accept(json.dumps({"sluice": {"job": world.job, "payload": payload}}).encode(), "m1")
    job = world.ledger.read(world.job)
    retention.begin(world.ledger.commit(replace(job, state=JobState.COMPLETE, finished_at=world.clock.now())))
    assert retention.follow(due(world, one, 31)[0], LONG)
    assert set(blobs(world, one)) == others
    assert list(one.connections.blobs.get_container_client("plans").list_blobs(name_starts_with=f"{world.job}/")) == []


def test_what_only_claims_a_job_does_not_keep_it(world, one, retention, parked):
    """The version before parked whatever claimed to be of the job among its own: anybody could keep it for ever."""
    retention.begin(finished(world, one))
    parked.open.append(Claim("accept"))
    assert retention.follow(due(world, one, 31)[0], LONG)


def test_a_tick_removes_groups_until_its_time_is_over_and_the_next_goes_on(world, one, retention):
    """601 results go in three requests, not in 601, and each look removes a group at least."""
    retention.begin(finished(world, one))
    results = one.connections.blobs.get_container_client("results")
    for number in range(600):
        results.upload_blob(f"{world.job}/2/{number} ü", b"partial")
    (pointer,) = due(world, one, 31)
    left, before = [len(blobs(world, one))], Counter(one.connections.meter.tally.counts())
    while not retention.follow(pointer, world.clock.monotonic()):
        assert due(world, one, 31) == [pointer], "it stays due"
        left.append(len(blobs(world, one)))
    made = Counter(one.connections.meter.tally.counts()) - before
    assert sum(number for counted, number in made.items() if counted.kind.operation == "DeleteBlobs") == 3
    assert [before - after for before, after in pairwise(left) if before > after][:2] == [256, 256]
    assert blobs(world, one) == []
    assert [one.note for one in due(world, one, 400)] == [SECOND_CHECK]


def test_a_leased_result_stays_and_a_refusal_of_another_kind_keeps_the_pointer(world, one, retention, monkeypatch):
    """A look that failed is repeated, so its pointer stays due."""
    retention.begin(finished(world, one))
    results = one.connections.blobs.get_container_client("results")
    (pointer,) = due(world, one, 31)
    lease = results.get_blob_client(f"{world.job}/1/0").acquire_lease()
    assert retention.follow(pointer, LONG)
    assert [blob.name for blob in results.list_blobs(name_starts_with=f"{world.job}/")] == [f"{world.job}/1/0"]
    lease.break_lease(0)
    monkeypatch.setattr("shared.pipeline.removal.job_bytes._REMOVED", frozenset())
    (second,) = due(world, one, 31)
    with pytest.raises(StorageUnavailableError, match="remove the blobs"):
        retention.follow(second, LONG)
    assert due(world, one, 31) == [second]


@pytest.mark.parametrize(("aside", "is_buried"), [(None, True), (1, False)])
def test_an_entry_that_outlived_its_reason_keeps_no_job(  # noqa: PLR0917 - fixtures and cases
    world, one, retention, parked, aside, is_buried
):
    """The result that set transactions aside was lost, and the next run accepted them."""
    retention.begin(finished(world, one))
    world.ledger.commit(replace(world.ledger.read(world.job), aside=aside))
    parked.open.append(Claim("transactions"))
    assert retention.follow(due(world, one, 31)[0], LONG) == is_buried
    assert [entry.state for entry in parked.closed] == [EntryState.DONE] * is_buried


@pytest.mark.parametrize(("revision", "is_buried"), [(1, True), (2, False)])
def test_an_entry_of_a_run_before_the_last_one_keeps_no_job(  # noqa: PLR0917 - fixtures and cases
    world, one, retention, parked, revision, is_buried
):
    """It was parked late, and a replay of it has no effect."""
    retention.begin(finished(world, one))
    world.ledger.commit(replace(world.ledger.read(world.job), run_from=2, revision=2))
    parked.open.append(Claim("process", revision=revision))
    assert retention.follow(due(world, one, 31)[0], LONG) is is_buried
