"""A person stops a job: its numbers are final, its event says so, and nothing of it is published."""

import json
from dataclasses import replace

import pytest

from shared.errors import JobStateError
from shared.ledger import SEALED
from shared.ledger.job_decisions import note_gate_passed, record_plan
from shared.ledger.records import JobState, PlanBlob
from shared.operating import ReplayFate, ReplayPace, Selection
from shared.parked import EntryState
from shared.pipeline import Outputs
from shared.telemetry import events
from tests.faults.sales import PERMANENT
from tests.faults.world import SETTINGS
from tests.pipeline.test_pause import CHUNKS, WHY, begin, halts, look, tick
from tests.pipeline.whole_app import app_in_memory


@pytest.fixture(scope="module")
def app():
    """An installation on storage of its own."""
    with app_in_memory() as made:
        yield made


def announced(app, job):
    """Return the states of a job that its events named."""
    found = (json.loads(body)["sluice"] for body in app.bus.told("completed"))
    return [one["state"] for one in found if one["job"] == job]


def test_a_stopped_job_keeps_its_numbers_for_good(app, told):
    """Results on their way are dropped, and so are its messages. A repeated stop finds it done."""
    begin(app, "wrong")
    app.deliver("work-00")
    stopped = app.stores.job_operator.stop("wrong", **WHY)
    assert (stopped.state, stopped.by, stopped.problem) == (JobState.STOPPED, "ann", "wrong tariff")
    assert 0 < stopped.totals.accepted.items < stopped.items
    assert stopped.not_run == stopped.items - stopped.totals.items
    look(app)
    app.work_off()
    tick(app, 6)
    found = app.read("wrong")
    assert (found.state, found.totals, found.dispatch_cursor) == (
        JobState.STOPPED,
        stopped.totals,
        stopped.dispatch_cursor,
    )
    assert announced(app, "wrong") == ["stopped"]
    assert halts(app) == ({}, set())
    # The tick tells each once, however often it follows the pointer.
    assert told(events.MESSAGES_HALTED) == [{"job": "wrong", "state": "stopped", "halts": 1}]
    ways = stopped.totals
    numbers = {"accepted": ways.accepted.items, "rejected": 0, "parked": 0, "not_run": stopped.not_run}
    assert told(events.JOB_STOPPED) == [{"job": "wrong", "by": "ann"} | numbers]
    outputs = app.others.blobs.get_container_client("outputs")
    assert list(Outputs(outputs, "wrong", 1).parts()) == []
    assert app.stores.job_operator.stop("wrong", **WHY).finished_at == stopped.finished_at
    with pytest.raises(JobStateError, match="it is stopped, expected paused"):
        app.stores.job_operator.resume("wrong", **WHY)
    with pytest.raises(JobStateError, match="it is stopped: it has ended"):
        app.stores.job_operator.pause("wrong", **WHY)


def test_a_stopped_job_is_listed_and_buried_although_entries_of_it_are_open(app):
    """They can be of no use any more."""
    sales = app.app.stages.workloads.find("sales")
    sales.breaks_at = {"a": PERMANENT}
    app.submit("broken", 3)
    app.deliver("submissions")
    app.deliver("work-00")
    sales.breaks_at = {}
    app.stores.job_operator.stop("broken", **WHY)
    tick(app)
    assert [one.state for one in app.stores.job_list.newest(1)] == [JobState.STOPPED]
    assert list(app.stores.parked_table.entries("broken"))
    app.clock.advance(days=SETTINGS.retention.days)
    tick(app)
    assert app.read("broken").state is JobState.BURIED


def test_a_job_that_has_ended_is_not_stopped(app):
    """Its outputs are there, and its event was sent."""
    app.run("whole", 3)
    with pytest.raises(JobStateError, match="it is complete: it has ended"):
        app.stores.job_operator.stop("whole", **WHY)
    with pytest.raises(JobStateError, match="it is not known"):
        app.stores.job_operator.stop("never", **WHY)
    app.stores.ledger.commit(replace(app.read("whole"), state=JobState.FINISHING))
    assert app.stores.job_operator.stop("whole", **WHY).not_run == 0


def test_a_held_job_that_is_stopped_is_not_started_by_its_gate(app):
    """The release lets go of its held row."""
    app.submit("held", 2, gate="nightly")
    app.work_off()
    app.stores.job_operator.stop("held", **WHY)
    app.stores.gate_operator.open("nightly", by="ann")
    tick(app, 2)
    found = app.read("held")
    assert (found.state, found.not_run, announced(app, "held")) == (JobState.STOPPED, found.items, ["stopped"])
    assert not list(app.others.tables.get_table_client("held").list_entities())


def test_a_job_that_is_stopped_before_its_plan_takes_none(app):
    """Whoever accepts it goes on as with any other job, and dispatches nothing."""
    begin(app, "planned")
    row = replace(app.read("planned"), plan=None, state=JobState.STOPPED)
    assert record_plan(row, PlanBlob("p", "e"), 1, 1, 1) is row
    assert note_gate_passed(replace(row, gate="nightly"), None) == replace(row, gate="nightly")
    assert row.state in SEALED
    assert app.read("planned").chunks == CHUNKS


def test_what_is_parked_of_a_stopped_job_is_replayed_no_more():
    """A replay of it alone is refused, and one of its cause puts back the entries of other jobs alone."""
    with app_in_memory() as app:
        sales = app.app.stages.workloads.find("sales")
        sales.breaks_at = {"a": PERMANENT}
        for job in ("alone", "other"):
            app.run(job, 1)
        sales.breaks_at = {}
        # As if the person had been faster than the last chunk.
        app.stores.ledger.commit(replace(app.read("alone"), state=JobState.PAUSED))
        app.stores.job_operator.stop("alone", **WHY)
        operator = app.stores.build_parked_operator(lambda _seconds: app.work_off())
        with pytest.raises(JobStateError, match="could not replay alone: job is stopped: rerun it"):
            operator.ask_replay(Selection(job="alone"), ReplayPace(), by="ann")
        (entry,) = operator.select(Selection(job="alone"))
        *_, replayed = operator.replay(Selection(fingerprint=entry.fingerprint), ReplayPace(patience=3), by="ann")
        assert replayed.counts == {ReplayFate.REFUSED: 1, ReplayFate.DONE: 1}
        (closed,) = operator.select(Selection(job="alone"), closed=True)
        assert (closed.state, closed.note) == (EntryState.DISCARDED, "job is stopped: rerun it")
