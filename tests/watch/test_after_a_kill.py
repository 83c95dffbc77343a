"""A process that dies between the row of a job and the need in the watch: the tick writes it, and removes it at the end."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.app import Stores
from shared.ledger import JobState, commit
from tests.faults.plan import KilledError, killed
from tests.pipeline.whole_app import app_in_memory


@pytest.fixture
def app():
    """An app on storage of its own: the queues have their real names."""
    with app_in_memory() as made:
        yield made


def names(app):
    """Return the needs in the watch."""
    return [(need.kind, need.about) for need in Stores(app.others).watch.read().needs]


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_tick_writes_and_removes_what_a_killed_process_did_not(app, monkeypatch, is_killed):
    """Paused, resumed, ended: after the tick's look the watch has what the row says, and so it stays."""
    watch = app.stores.watch

    def pause():
        job = app.stores.ledger.read("nightly")
        commit(app.stores.ledger, replace(job, state=JobState.PAUSED, problem="its plan is gone"))

    def act(write, acting):
        with monkeypatch.context() as patched:
            if is_killed:
                patched.setattr(watch, write, lambda *_: killed())
            try:
                acting()
            except KilledError:
                return
        assert not is_killed

    app.submit("nightly", 3)
    app.deliver("submissions")
    act("begin", pause)
    assert names(app) == ([] if is_killed else [("x-paused", "nightly")])
    app.work_off()
    app.clock.advance(minutes=11)
    app.app.tick()
    assert names(app) == [("x-paused", "nightly")]
    act("end", lambda: app.stores.job_operator.resume("nightly", by="ann", why="mended"))
    assert names(app) == ([("x-paused", "nightly")] if is_killed else [])
    for _ in range(4):
        app.work_off()
        app.clock.advance(minutes=11)
        app.app.tick()
    assert app.read("nightly").state is JobState.COMPLETE
    assert names(app) == []
    # A slow process would have written by now, so no pointer stands.
    assert [one for one in app.stores.pending.due(app.clock.now() + timedelta(days=1)) if one.kind == "job"] == []
