"""Acts on jobs of each other's kind: a grown job runs again and is erased, and so are jobs that others wait for."""

import pytest

from shared.errors import JobStateError
from shared.ledger.records import JobState
from shared.operating.descent import describe_sources
from shared.pending import WAIT_POINTER
from shared.workloads import Line
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


def test_a_job_of_others_runs_again_with_what_its_sources_made_since(night):  # noqa: F811
    """Another plan, other ids, and here fewer chunks. The rows of the run before count no more."""
    night.submit("rate", *"xwyz" * 3)
    night.submit_jobs("invoice", "rate", sums={"amount": "amount"}, night="n-1")
    night.run()
    before = night.read("invoice")
    night.world.sales.finish = lambda sold: [Line({"shop": "x", "amount": str(sum(one.amount for one in sold))})]
    night.act("rerun", "rate")
    night.tick()
    assert (night.state("rate"), night.read("rate").revision) == (JobState.COMPLETE, 2)
    assert list(describe_sources(night.stores.ledger, before))[1:] == [
        "rate is at revision 2 now, this job used 1: sluice jobs rerun invoice takes the newest"
    ]
    night.act("rerun", "invoice")
    night.run()
    invoice = night.read("invoice")
    assert (invoice.state, invoice.revision, invoice.used["rate"]) == (JobState.COMPLETE, 2, 2)
    assert (before.items, invoice.items, invoice.totals.accepted.items) == (12, 1, 1)
    assert invoice.chunks < before.chunks
    assert invoice.id_base != before.id_base
    assert invoice.declared["amount"] == night.read("rate").totals.accepted.sums["amount"]
    # Nothing moved since: the same plan, and the same numbers.
    night.act("rerun", "invoice")
    night.run()
    again = night.read("invoice")
    assert (again.state, again.revision, again.plan, again.id_base) == (
        JobState.COMPLETE,
        3,
        invoice.plan,
        invoice.id_base,
    )


def test_a_job_of_others_waits_for_a_source_that_runs_again(night):  # noqa: F811
    """And can be paused, stopped and run again meanwhile."""
    night.submit("rate", "x", "y")
    night.submit_jobs("invoice", "rate")
    night.run()
    night.act("rerun", "rate")
    assert night.act("rerun", "invoice").state is JobState.HELD
    night.run("work-00")
    assert (night.state("rate"), night.state("invoice")) == (JobState.RUNNING, JobState.HELD)
    night.act("stop", "invoice")
    assert night.act("rerun", "invoice").revision == 3
    night.world.clock.advance(seconds=11)
    night.run()
    invoice = night.read("invoice")
    assert (invoice.state, invoice.revision, invoice.run_from, invoice.used["rate"]) == (JobState.COMPLETE, 3, 3, 2)


def test_a_lost_hint_of_a_rerun_costs_the_time_of_its_pointer(night):  # noqa: F811
    """The tick looks at the sources."""
    night.submit("rate", "x", "y")
    night.submit_jobs("invoice", "rate")
    night.run()
    night.act("rerun", "rate")
    night.run()
    night.act("rerun", "invoice")
    night.world.bus.lose()
    assert night.state("invoice") is JobState.HELD
    night.tick(minutes=4)
    night.tick(minutes=2)
    assert (night.state("invoice"), night.read("invoice").used["rate"]) == (JobState.COMPLETE, 2)
    night.tick()
    assert [one for one in night.world._pointers() if one.kind == WAIT_POINTER] == []


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
