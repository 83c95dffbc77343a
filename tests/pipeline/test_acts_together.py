"""Acts on jobs of each other's kind: a grown job runs again and is erased, and so are jobs that others wait for."""

import pytest

from shared.errors import JobStateError
from shared.ledger.records import JobState
from tests.pipeline.test_after import night, quick  # noqa: F401 - the installation of these tests
from tests.pipeline.test_growing_jobs import EACH, JOB, Feed, app  # noqa: F401 - the other installation
from tests.pipeline.test_pause import tick


def grow(app, stretches=3):  # noqa: F811 - the fixture's installation
    """Have a job grow by stretches to its end."""
    feed = Feed(app)
    for _ in range(stretches):
        feed.write()
        feed.drop()
        app.work_off()
    feed.end(stretches * EACH)
    feed.drop()
    app.work_off()
    assert app.read(JOB).state is JobState.COMPLETE


def test_a_grown_job_runs_again_from_its_first_stretch(app):  # noqa: F811
    """Each transaction of each stretch counts once in the new run."""
    grow(app)
    before = app.read(JOB)
    app.stores.job_operator.rerun(JOB, by="ann", why="tariff corrected")
    tick(app, 2)
    job = app.read(JOB)
    assert (job.state, job.revision, job.run_from) == (JobState.COMPLETE, 2, 2)
    assert job.totals == before.totals


def test_nothing_is_left_of_a_grown_job_that_is_erased(app):  # noqa: F811
    """Neither of its stretches nor of their rows."""
    grow(app)
    erased = app.stores.job_eraser.erase(JOB, by="ann", why="request 4711")
    assert app.stores.remains.find(erased) == {}
    payloads = app.others.blobs.get_container_client("payloads")
    assert list(payloads.list_blob_names(name_starts_with=f"{JOB}/")) == []


def test_a_job_that_grows_does_not_run_again(app):  # noqa: F811
    """Stopped or not: its publisher has the rest."""
    feed = Feed(app)
    feed.write()
    feed.drop()
    app.work_off()
    app.stores.job_operator.stop(JOB, by="ann", why="wrong file")
    with pytest.raises(JobStateError, match="it grows: send the rest, or send it under another id"):
        app.stores.job_operator.rerun(JOB, by="ann", why="x")


def test_an_erased_predecessor_pauses_the_job_that_waits(night):  # noqa: F811
    """With the reason. It has no payload of the other, so its own stays."""
    night.submit("rate")
    night.submit("report", after=["rate"])
    night.run("work-00")
    night.stores.job_eraser.erase("rate", by="ann", why="request 4711")
    night.tick()
    assert night.state("report") is JobState.PAUSED
    assert night.read("report").problem == "rate was erased by ann: request 4711"


def test_a_source_is_erased_with_what_was_made_from_it(night):  # noqa: F811
    """Alone it is refused, and a job of which another was made can go when that is gone."""
    night.submit("rate", "x", "y")
    night.submit_jobs("invoice", "rate")
    night.run()
    assert night.state("invoice") is JobState.COMPLETE
    with pytest.raises(JobStateError, match="invoice was made from its output"):
        night.stores.job_eraser.erase("rate", by="ann", why="request 4711")
    night.stores.job_eraser.erase("invoice", by="ann", why="request 4711")
    erased = night.stores.job_eraser.erase("rate", by="ann", why="request 4711")
    assert night.stores.remains.find(erased) == {}


def test_a_job_of_others_runs_again_with_the_lines_that_it_took(night):  # noqa: F811
    """What its source came to since is said, and is not taken."""
    night.submit("rate", "x", "y")
    night.submit_jobs("invoice", "rate")
    night.run()
    night.act("rerun", "rate")
    night.tick()
    assert (night.state("rate"), night.read("rate").revision) == (JobState.COMPLETE, 2)
    night.act("rerun", "invoice")
    night.tick()
    invoice = night.read("invoice")
    assert (invoice.state, invoice.revision, invoice.used["rate"]) == (JobState.COMPLETE, 2, 1)


def test_the_line_of_an_erased_job_in_its_night_quotes_nothing(night):  # noqa: F811
    """Its name, its numbers and its state stay."""
    night.submit("rate", night="n-1")
    night.run()
    night.act("rerun", "rate")
    erased = night.stores.job_eraser.erase("rate", by="ann", why="request 4711")
    night.tick()
    assert night.stores.remains.find(erased) == {}
    (line,) = night.stores.job_list.read_night("n-1")
    assert (line.listed.job, line.listed.state) == ("rate", JobState.ERASED)


def test_the_id_of_an_erased_job_is_refused_as_such_in_every_way_in(app, night):  # noqa: F811
    """Behind another job, and in stretches. The entry keeps the head alone."""
    night.submit("rate")
    night.run()
    night.stores.job_eraser.erase("rate", by="ann", why="request 4711")
    night.submit("rate", after=["other"])
    night.run()
    assert [reason for reason, _ in night.parked()] == ["erased"]
    (entry,) = night.stores.parked_table.entries()
    assert b"payload" not in night.stores.parked_table.body(entry)
    grow(app)
    app.stores.job_eraser.erase(JOB, by="ann", why="request 4711")
    again = Feed(app)
    again.write()
    again.drop()
    app.work_off()
    assert [one.reason for one in app.stores.parked_table.entries()] == ["erased"]
