"""A person erases a job: nothing of its transactions is found anywhere afterwards, and its row says who, when, why and the proof."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.errors import JobStateError
from shared.ledger.records import JobState
from shared.pending import ERASE_POINTER
from shared.pipeline.removal.remains import Remains
from shared.telemetry import events
from tests.pipeline.test_pause import begin, look, tick
from tests.pipeline.test_stop import announced
from tests.pipeline.whole_app import running_app

WHY = {"by": "ann", "why": "request 4711"}


@pytest.fixture(scope="module")
def app():
    """An installation on storage of its own."""
    with running_app() as made:
        yield made


def pointers(app):
    """Return when the pointers to erased jobs are due, by job."""
    later = app.clock.now() + timedelta(days=400)
    return {one.id: one.due for one in app.stores.pending.due(later) if one.kind == ERASE_POINTER}


def test_a_complete_job_is_erased_proven_and_looked_for_once_more(app):
    """Its row keeps no hash of its content, no plan and no story."""
    app.run("whole", 3)
    erased = app.stores.job_eraser.erase("whole", **WHY)
    assert (erased.state, erased.by, erased.problem, erased.content_hash) == (
        JobState.ERASED,
        "ann",
        "request 4711",
        "",
    )
    assert app.stores.remains.find(erased) == {}
    tick(app, 6)
    found = app.read("whole")
    assert (found.proof["found"], found.proof["looks"], found.plan, found.story) == (0, 1, None, ())
    assert pointers(app)["whole"] > app.clock.now() + timedelta(hours=20)
    app.clock.advance(days=1)
    tick(app)
    assert app.read("whole").proof["looks"] == 2
    assert "whole" not in pointers(app)
    (line,) = (one for one in app.stores.job_list.newest(9) if one.job == "whole")
    assert (line.state, line.problem, line.first_id) == (JobState.ERASED, "request 4711", None)


def test_an_open_job_is_stopped_by_the_same_write(app):
    """Its messages are dropped, its event says stopped, and no result brings anything back."""
    begin(app, "open")
    app.stores.job_eraser.erase("open", **WHY)
    look(app)
    app.work_off()
    assert app.read("open").proof is None
    tick(app, 8)
    found = app.read("open")
    assert (found.state, found.proof["found"], announced(app, "open")) == (JobState.ERASED, 0, ["stopped"])


def test_an_erasure_that_is_not_proven_for_long_is_told(app, told, monkeypatch):
    """Once it has taken an hour and a half. The tick looks again, until nothing is left."""
    app.run("leased", 2)
    with monkeypatch.context() as leased:
        leased.setattr(Remains, "find", lambda _self, _job: {"blobs in results": 1})
        app.stores.job_eraser.erase("leased", **WHY)
        tick(app, 5, minutes=17)
        assert told(events.ERASE_UNPROVEN) == []
        tick(app, minutes=17)
        assert told(events.ERASE_UNPROVEN) == [{"job": "leased", "left": "1 blobs in results"}]
    tick(app, minutes=17)
    assert app.read("leased").proof["found"] == 0


def test_its_id_is_refused_and_the_entry_has_no_transactions(app):
    """It says that a submission came."""
    app.submit("again", 2)
    app.work_off()
    app.stores.job_eraser.erase("again", **WHY)
    app.submit("again", 2)
    app.work_off()
    (entry,) = app.stores.parked_table.claiming("again")
    assert (entry.reason, json.loads(app.stores.parked_table.body(entry))) == (
        "erased",
        {"sluice": {"v": 1, "kind": "submission", "job": "again", "workload": "sales"}},
    )


def test_one_that_others_were_made_from_is_refused(app):
    """Unless they are named too."""
    app.run("source", 2)
    app.stores.ledger.commit(replace(app.read("source"), waiters=("made",)))
    app.run("made", 2)
    app.stores.ledger.commit(replace(app.read("made"), used={"source": 1}))
    with pytest.raises(JobStateError, match="made was made from its output: name it too"):
        app.stores.job_eraser.erase("source", **WHY)
    assert app.stores.job_eraser.erase("source", **WHY, also={"made"}).state is JobState.ERASED
    with pytest.raises(JobStateError, match="it is not known"):
        app.stores.job_eraser.erase("never", **WHY)
