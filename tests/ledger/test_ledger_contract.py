"""What every ledger promises, on the one in memory and on the one in a table."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.azure.bus import Destination
from shared.ledger import ChunkState
from shared.ledger.job_decisions import Balance, bury, finish
from shared.ledger.ledger import MOST_ROWS
from shared.ledger.precedence import MOST_WAITERS
from shared.ledger.records import Job, JobState
from shared.outbox import JOB_EVENTS, OutgoingMessage
from tests.ledger.builders import NOON, job, row


def inserted(ledger, **changes):
    """Insert a job and return it."""
    stored, is_new = ledger.insert(job(**changes))
    assert is_new
    return stored


def without_marks(record):
    """Return a record as it was before a store put its own marks on it."""
    told = {"story": (), "listed_at": None} if isinstance(record, Job) else {}
    return replace(record, etag="", nonce="", **told)


def test_a_job_is_read_as_it_was_inserted(ledger):
    """Nothing of a job is lost on the way into the store and back, exact sums included."""
    stored = inserted(ledger, deadline=NOON + timedelta(hours=1, microseconds=7), gate="nightly", problem="ünïcode 🎉")
    assert ledger.read("nightly") == stored
    assert without_marks(stored) == job(
        deadline=NOON + timedelta(hours=1, microseconds=7), gate="nightly", problem="ünïcode 🎉"
    )


def test_an_unknown_job_is_none(ledger):
    """Asking for a job that was never accepted is no error."""
    assert ledger.read("never") is None
    assert list(ledger.rows("never")) == []


def test_the_second_insert_returns_the_first_job(ledger):
    """One id is one job; whoever comes second sees what the first one wrote."""
    first = inserted(ledger)
    stored, is_new = ledger.insert(job(content_hash="other"))
    assert (stored, is_new) == (first, False)


def test_a_job_begins_with_the_names_of_those_that_came_before_it(ledger):
    """Until then it is none: neither read nor there for a second look, and a name twice is one."""
    assert [ledger.name_waiter("nightly", name) for name in ("report", "invoice", "report")] == [True] * 3
    assert ledger.read("nightly") is None
    stored, is_new = ledger.insert(job())
    assert (is_new, stored.waiters) == (True, ("report", "invoice"))
    assert ledger.read("nightly") == stored
    assert ledger.commit(replace(stored, done=1)).waiters == ("report", "invoice")
    assert ledger.insert(job(content_hash="other"))[1] is False


def test_a_name_comes_too_late_for_a_job_that_is_there_and_beyond_the_last(ledger):
    """Whoever is refused leaves the name in the row, or comes again."""
    inserted(ledger)
    assert not ledger.name_waiter("nightly", "report")
    assert ledger.read("nightly").waiters == ()
    assert all(ledger.name_waiter("later", f"job-{number}") for number in range(MOST_WAITERS))
    assert not ledger.name_waiter("later", "one-more")
    assert ledger.name_waiter("later", "job-7")


def test_names_and_a_job_that_come_at_once_miss_each_other_never(ledger):
    """Each name is in the row, or its writer was refused and knows that the row is there."""
    named, threads = {}, [threading.Thread(target=lambda: ledger.insert(job()))]
    for number in range(8):
        name = f"job-{number}"
        threads.append(
            threading.Thread(target=lambda name=name: named.__setitem__(name, ledger.name_waiter("nightly", name)))
        )
    for thread in reversed(threads):
        thread.start()
    for thread in threads:
        thread.join()
    assert set(ledger.read("nightly").waiters) == {name for name, is_named in named.items() if is_named}


def test_of_fifty_inserts_at_once_one_is_new(ledger):
    """The same submission dropped fifty times at once is one job."""
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ledger.insert(job())[1])) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] * 49 + [True]


def test_a_commit_writes_the_job_and_its_rows(ledger):
    """A job and its rows change together, and each has a new version."""
    before = inserted(ledger)
    after = ledger.commit(replace(before, done=2), [row(0), row(2)])
    assert after.done == 2
    assert after.etag != before.etag
    assert ledger.read("nightly") == after
    assert [without_marks(found) for found in ledger.rows("nightly")] == [row(0), row(2)]


def test_a_commit_over_an_older_version_changes_nothing(ledger):
    """Of two settlers that read the same job, the second is refused, rows included."""
    before = inserted(ledger)
    ledger.commit(replace(before, done=1), [row(0)])
    assert ledger.commit(replace(before, done=1), [row(1)]) is None
    assert ledger.read("nightly").done == 1
    assert [found.chunk for found in ledger.rows("nightly")] == [0]


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_row_that_exists_refuses_the_whole_commit(ledger, position):
    """A chunk is inserted once: wherever in the group it stands, nothing of the group is written."""
    before = ledger.commit(inserted(ledger), [row(position)])
    assert ledger.commit(replace(before, done=3), [row(n) for n in range(3)]) is None
    assert ledger.read("nightly") == before
    assert [found.chunk for found in ledger.rows("nightly")] == [position]


def test_a_row_is_replaced_only_in_the_version_that_was_read(ledger):
    """Of two replays of one parked chunk, one takes its place."""
    parked_row = row(1, state=ChunkState.PARKED)
    before = ledger.commit(inserted(ledger), [parked_row])
    found = ledger.rows_of("nightly", [1])[1]
    first = ledger.commit(before, [row(1, etag=found.etag)])
    assert first is not None
    assert ledger.commit(first, [row(1, etag=found.etag, hash="0" * 64)]) is None
    assert ledger.rows_of("nightly", [1])[1].hash == row(1).hash


def test_a_full_transaction_fits(ledger):
    """Ninety-nine chunks and their job are one write."""
    after = ledger.commit(inserted(ledger, chunks=MOST_ROWS), [row(n) for n in range(MOST_ROWS)])
    assert after is not None
    assert [found.chunk for found in ledger.rows("nightly")] == list(range(MOST_ROWS))


def test_rows_are_asked_for_by_number_however_far_apart(ledger):
    """Only the rows that were asked for come back, and gaps do not matter."""
    ledger.commit(inserted(ledger, chunks=100_000), [row(n) for n in (3, 4, 5, 2500, 99_999)])
    assert sorted(ledger.rows_of("nightly", [4, 6, 2500, 50_000, 99_999])) == [4, 2500, 99_999]
    assert ledger.rows_of("nightly", []) == {}


def test_rows_of_one_job_are_not_those_of_another(ledger):
    """A job whose name begins like another's shares nothing with it."""
    ledger.commit(inserted(ledger), [row(0)])
    ledger.insert(job(job="nightly2"))
    assert list(ledger.rows("nightly2")) == []


def test_an_event_is_stored_with_the_state_it_tells_of(ledger):
    """State and event are one write, and the event stays until it is removed."""
    before = inserted(ledger)
    event = OutgoingMessage("1", JOB_EVENTS, b"the body")
    assert ledger.unsent("nightly") == []
    ledger.commit(replace(before, state=JobState.COMPLETE), messages=[event])
    assert ledger.unsent("nightly") == [event]
    ledger.forget("nightly", [event])
    ledger.forget("nightly", [event])
    assert ledger.unsent("nightly") == []


def test_messages_to_any_destination_come_back_as_they_were_stored_and_in_order(ledger):
    """Each with its properties, its session and the time before which it is not to be received."""
    messages = [
        OutgoingMessage("2", Destination("bus", "results"), b"two", {"number": 7, "flag": True}, "session-1", NOON),
        OutgoingMessage("1", Destination("queue", "work-00"), b"one"),
        OutgoingMessage("3", Destination("call", "dispatch"), b"three", session="session-2"),
    ]
    ledger.commit(replace(inserted(ledger), done=1), messages=messages)
    assert ledger.unsent("nightly") == [messages[1], messages[0], messages[2]]


def test_a_refused_commit_leaves_no_event(ledger):
    """Nothing is announced of a state that was not written."""
    before = inserted(ledger)
    ledger.commit(replace(before, done=1))
    assert ledger.commit(replace(before, done=2), messages=[OutgoingMessage("1", JOB_EVENTS, b"never")]) is None
    assert ledger.unsent("nightly") == []


def test_a_buried_job_keeps_its_id_taken(ledger):
    """After the retention the rows are gone, and the same submission is still known."""
    before = ledger.commit(inserted(ledger, state=JobState.FINISHING), [row(n) for n in range(3)])
    done = ledger.commit(finish(before, 1, Balance(JobState.COMPLETE), NOON))
    ledger.commit(bury(done))
    list(ledger.remove_rows("nightly"))
    list(ledger.remove_rows("nightly"))
    assert list(ledger.rows("nightly")) == []
    stored, is_new = ledger.insert(job())
    assert (stored.state, stored.content_hash, is_new) == (JobState.BURIED, "c0ffee", False)


def test_the_newest_jobs_come_first(ledger):
    """The list begins with what was accepted last, across the turn of a month and of a year."""
    days = {"a": timedelta(0), "b": timedelta(days=20), "c": timedelta(days=300), "d": timedelta(seconds=1)}
    for name, later in days.items():
        ledger.insert(job(job=name, accepted_at=NOON + later))
    ledger.insert(job(job="a", accepted_at=NOON + timedelta(days=400)))
    assert [line.job for line in ledger.newest(10)] == ["c", "b", "d", "a"]
    assert [line.job for line in ledger.newest(2)] == ["c", "b"]
    assert ledger.newest(1)[0].workload == "billing"
