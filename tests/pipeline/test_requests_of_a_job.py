"""A job's own count of its storage requests, against what the meter saw of the whole app."""

from collections import Counter
from dataclasses import replace

import pytest

from shared.app import Stores
from shared.azure.meter import BUS, TABLE, Cause, RequestKind, because
from shared.ledger.ledger import commit, counting
from shared.ledger.records import Job, JobState
from tests.faults.world import NOON, SETTINGS
from tests.ledger.memory_ledger import MemoryLedger
from tests.pipeline.whole_app import app_in_memory


@pytest.fixture
def app():
    """An app on storage of its own: the queues have their real names."""
    with app_in_memory() as made:
        yield made


def test_a_job_counts_what_all_its_stages_requested(app):
    """Only what a stage does after its last write of the row is missing: the same few, however large the job is."""
    (small, made_for_small), (large, made_for_large) = app.run("small", 3), app.run("large", 40)
    assert (small.state, large.state, small.chunks, large.chunks) == (JobState.COMPLETE, JobState.COMPLETE, 3, 40)
    missing = made_for_small - sum(small.requests.values())
    assert 0 < missing < 10
    assert made_for_large - sum(large.requests.values()) == missing
    assert {"queue useful", "table useful", "blob-write useful", "blob-read useful"} <= small.requests.keys()


def test_a_chunk_costs_one_storage_request(app):
    """Put with its bytes; all else is shared, or the same for any number."""
    app.run("warm", 3)
    (ten, made_for_ten), (sixty, made_for_sixty) = app.run("ten", 10), app.run("sixty", 60)
    assert (ten.chunks, sixty.chunks) == (10, 60)
    # The test hands over 32 messages at a time, and what they came to is settled together.
    settled = -(-60 // 32) - 1
    # Each time: the job is read, the results are written, then the rows; and the results are read at the end.
    assert made_for_sixty - made_for_ten - 50 in range(4 * settled + 1)


def test_a_resume_is_counted_in_the_job_that_it_resumes(app):
    """The read and the write that an operator asked for are requests of the job like any other."""
    job, _ = app.run("small", 3)
    Stores(app.others).ledger.commit(replace(job, state=JobState.PAUSED, problem="why"))
    resumed = app.stores.job_operator.resume("small", by="ann", why="mended")
    assert resumed.state is JobState.FINISHING
    assert Counter(resumed.requests) - Counter(job.requests) == {"table useful": 2}


def test_a_burial_is_counted_and_the_tombstone_keeps_what_the_job_cost(app):
    """It reads the job, looks for parked entries and writes the tombstone; the removals after that are in no count."""
    job, _ = app.run("small", 3)
    for _ in range(2):
        # The first tick finds the job finished and begins its retention, the second one is when that is over.
        app.clock.advance(days=SETTINGS.retention.days)
        app.app.tick()
    tombstone = Stores(app.others).ledger.read("small")
    assert tombstone.state is JobState.BURIED
    assert Counter(tombstone.requests) - Counter(job.requests) == {"table sweep": 3}


A_READ, A_WRITE = (
    RequestKind("account", TABLE, "jobs", "QueryEntity"),
    RequestKind("account", TABLE, "jobs", "EntityGroup"),
)


class Refusing(MemoryLedger):
    """Somebody else is first, once."""

    is_refusing = True

    def commit(self, job, rows=(), messages=()):
        """Refuse the first one."""
        refuses, self.is_refusing = self.is_refusing, False
        return None if refuses else super().commit(job, rows, messages)


def test_a_commit_that_was_refused_is_noted_by_the_next_one_and_nothing_twice():
    """What was requested in vain was requested; what is noted is not noted again."""
    ledger = Refusing()
    job, _ = ledger.insert(Job(job="nightly", content_hash="0", workload="sales", accepted_at=NOON))
    with counting() as tally:
        tally.add(A_READ, Cause.USEFUL)
        tally.add(RequestKind("namespace", BUS, "results", "send"), Cause.USEFUL)
        assert commit(ledger, job) is None
        tally.add(A_WRITE, Cause.CONFLICT)
        job = commit(ledger, job)
        assert job.requests == {"table useful": 2, "table conflict": 1, "bus useful": 1}
        tally.add(A_WRITE, Cause.USEFUL)
        with because(Cause.SWEEP):
            assert commit(ledger, job).requests == {**job.requests, "table sweep": 1}
