"""The needs in storage: written beside the job, read by one request, and never a failure of the job."""

from dataclasses import replace
from datetime import timedelta

import pytest
from azure.core.exceptions import ServiceRequestError

from shared.ledger import JobState, Risk
from shared.telemetry import events
from shared.watch import Need, NeedKind
from shared.watch.watch_table import MOST_NEEDS
from tests.ledger.builders import NOON, at, job

PAUSED = {"state": JobState.PAUSED, "parked_chunks": 2}


def names(house):
    """Return the needs in the watch."""
    return [(need.kind, need.about) for need in house.watch.read().needs]


def test_a_commit_writes_a_need_when_it_begins_and_ends(house):
    """And nothing while it stands, or for a job without one."""
    stored, _ = house.ledger.insert(job())
    running = house.ledger.commit(replace(stored, milliseconds=1))
    assert names(house) == []
    paused = house.ledger.commit(replace(running, **PAUSED))
    assert names(house) == [("x-paused", "nightly")]
    house.clock.at = at(1)
    house.watch.end("x-paused", "nightly", NOON)
    still = house.ledger.commit(replace(paused, milliseconds=2))
    assert names(house) == []
    assert house.ledger.tell_needs(still)
    (need,) = house.watch.read().needs
    assert (need.since, need.at, need.found) == (NOON, at(1), "2 of 3 chunks are parked")
    house.ledger.commit(replace(still, state=JobState.RUNNING))
    assert names(house) == []


def test_an_ordinary_job_leaves_nothing_in_the_watch(house, monkeypatch):
    """Neither a commit nor the tick makes a request for it, from the first chunk to the end, one parked among them."""
    monkeypatch.setattr(house.watch, "_table", None)
    stored, _ = house.ledger.insert(job())
    for changes in ({"done": 1}, {"parked_chunks": 1}, {"done": 2, "state": JobState.FINISHING}):
        stored = house.ledger.commit(replace(stored, **changes))
    ended = house.ledger.commit(replace(stored, state=JobState.COMPLETED_WITH_PARKED, finished_at=NOON))
    assert house.ledger.tell_needs(ended)
    assert ended.needs is None


def test_the_tick_ends_a_need_that_a_killed_process_left(house):
    """By the marks of the row, also one that is over although its warning stays noted."""
    stored, _ = house.ledger.insert(job(deadline=NOON + timedelta(hours=1)))
    warned = house.ledger.commit(replace(stored, warned=Risk.WAITS_TOO_LONG))
    paused = house.ledger.commit(replace(warned, **PAUSED))
    resumed = house.ledger.commit(replace(paused, state=JobState.RUNNING))
    house.watch.begin(Need(NeedKind.PAUSED, "nightly", "a slow process", NOON))
    assert house.ledger.tell_needs(resumed)
    assert names(house) == [("z-late", "nightly")]
    assert house.ledger.tell_needs(resumed, is_in_time=True)
    assert names(house) == []
    assert house.ledger.tell_needs(resumed)
    assert names(house) == [("z-late", "nightly")]


def test_a_row_without_marks_is_told_by_the_tick(house):
    """An instance of 0.4.0 paused the job: it keeps the column, and writes no need."""
    stored, _ = house.ledger.insert(job(**PAUSED))
    assert (stored.needs, names(house)) == (None, [])
    assert house.ledger.tell_needs(stored)
    assert names(house) == [("x-paused", "nightly")]


def test_a_watch_that_does_not_answer_fails_no_job(house, monkeypatch, told):
    """The job is written, and the log names it."""
    stored, _ = house.ledger.insert(job())

    def refuse(*_given, **_named):
        raise ServiceRequestError("down")

    monkeypatch.setattr("shared.watch.watch_table.write_group", refuse)
    paused = house.ledger.commit(replace(stored, **PAUSED))
    assert house.ledger.read("nightly").state is JobState.PAUSED
    assert [one["state"] for one in told(events.JOB_UNWATCHED)] == ["paused"]
    assert not house.ledger.tell_needs(paused)
    monkeypatch.undo()
    assert house.ledger.tell_needs(paused)
    assert names(house) == [("x-paused", "nightly")]


def test_many_needs_of_one_kind_hide_no_other(house):
    """A first page has two hundred. Each kind behind them has a request of its own. Rows of hours are not read."""
    house.table.create_entity({"PartitionKey": "watch", "RowKey": "0|2026112112", "m00": "[]"})
    house.watch.begin(Need("a-order-stuck", "order-1", "it waits for its payment", NOON, is_grave=False))
    for number in range(MOST_NEEDS + 1):
        house.watch.begin(Need(NeedKind.PAUSED, f"job-{number:04}", "x", NOON))
    for number in range(7):
        house.watch.begin(Need(NeedKind.LATE, f"late-{number}", "x", NOON))
    house.watch.begin(Need(NeedKind.UNBALANCED, "uneven", "x", NOON))
    standing = house.watch.read()
    kinds = [need.kind for need in standing.needs]
    assert [kinds.count(one) for one in ("x-paused", "x-unbalanced", "z-late")] == [MOST_NEEDS - 1, 1, 5]
    assert kinds[-1] == "a-order-stuck"
    assert standing.more == ["x-paused", "z-late"]


@pytest.mark.parametrize("about", ["team-a~nightly", "it's|odd"])
def test_any_id_is_read_as_it_was_written(house, about):
    """Also one with the sign that separates the parts of a key."""
    house.watch.begin(Need(NeedKind.PAUSED, about, "x", NOON))
    (need,) = house.watch.read().needs
    assert (need.kind, need.about) == ("x-paused", about)
    house.watch.end(need.kind, need.about, NOON)
    house.watch.end(need.kind, need.about, NOON)
    assert house.watch.read().needs == []
