"""A process that dies between the end of a job and its line in the list of jobs: the tick mends the line."""

import pytest

from shared.app import Stores
from shared.ledger import CLOSED, JobState, Wanted
from tests.faults.plan import KilledError
from tests.pipeline.whole_app import app_in_memory


@pytest.fixture
def app():
    """An app that nobody else uses."""
    with app_in_memory() as made:
        yield made


@pytest.mark.parametrize("is_written", [False, True])
def test_a_tick_tells_the_end_that_a_killed_process_did_not(app, monkeypatch, is_written):
    """Killed before the line is written, or after it: the job has ended, and after a tick the list says so."""
    jobs = app.stores.ledger.list
    tell = jobs.tell

    def tell_or_die(job):
        if job.state not in CLOSED or is_written:
            tell(job)
        if job.state in CLOSED:
            raise KilledError

    monkeypatch.setattr(jobs, "tell", tell_or_die)
    app.submit("nightly", 3)
    with pytest.raises(KilledError):
        app.work_off()
    monkeypatch.undo()
    others = Stores(app.others)
    assert app.read("nightly").state is JobState.COMPLETE
    (line,) = others.job_list.newest(10)
    assert (line.state is JobState.COMPLETE) is is_written
    app.work_off()
    app.clock.advance(hours=2)
    app.app.tick()
    (line,) = others.job_list.page(Wanted(state=JobState.COMPLETE), 10).jobs
    assert (line.job, line.done, line.finished_at) == ("nightly", 3, app.read("nightly").finished_at)
