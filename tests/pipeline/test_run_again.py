"""A person has a job run again: with the code that is deployed, under a new revision, beside the totals of the run before."""

from dataclasses import replace
from decimal import Decimal

import pytest

from shared.app import Stores
from shared.concurrency.fleet import Worker
from shared.errors import ActStaleError, JobStateError
from shared.grammar import run_partition
from shared.ledger.records import JobState
from shared.operating.replay import ReplayPace, Selection
from shared.parked import EntryState
from shared.pipeline.outputs import Outputs, TotalsTable
from tests.faults.sales import PERMANENT, LinedSales
from tests.faults.world import SETTINGS, sales
from tests.pipeline.test_pause import CHUNKS, WHY, begin, halts, look, tick
from tests.pipeline.test_stop import announced
from tests.pipeline.whole_app import running_app

AGAIN = {"by": "ann", "why": "tariff corrected"}


class Tariffs(LinedSales):
    """Sales with a tariff that a deployment corrects."""

    factor = 1

    def map(self, sale, number):
        """Charge by the tariff."""
        sold = super().map(sale, number)
        return replace_amount(sold, self.factor)


def replace_amount(sold, factor):
    """Return the sale at this tariff."""
    return type(sold)(sold.shop, sold.amount * factor, sold.id) if hasattr(sold, "id") else sold


@pytest.fixture(scope="module")
def app():
    """An installation on storage of its own."""
    with running_app(workload=Tariffs()) as made:
        yield made


@pytest.fixture
def tariff(app):
    """The deployed workload, which ends as it began."""
    workload = app.app.stages.workloads.find("sales")
    yield workload
    workload.factor, workload.breaks_at = 1, {}


def rerun(app, job, **words):
    """Have a job run again to its end."""
    begun = app.stores.job_operator.rerun(job, **AGAIN, **words)
    tick(app, 2)
    return begun


def totals(app, job, revision):
    """Return the totals of a revision by account, and the partitions that have them."""
    table, run = TotalsTable(app.others.tables.get_table_client("totals")), app.read(job).run_from
    names = [run_partition(job, one) for one in range(run + 1)]
    rows = [row for one in names if one for row in table.rows_of_partition(one, revision)]
    return {row["account"]: Decimal(row["amount"]) for row in rows}, {row["PartitionKey"] for row in rows}


def manifest(app, job, revision):
    """Return a revision's manifest."""
    return Outputs(app.others.blobs.get_container_client("outputs"), job, revision).find_manifest()


def test_a_finished_job_runs_again_beside_its_totals(app, tariff):
    """Its ids stay, its chunks are replaced, and the outputs of the run before are as they were."""
    app.run("rate", 3)
    first, before = app.read("rate"), manifest(app, "rate", 1)
    tariff.factor = 2
    begun = rerun(app, "rate")
    assert (begun.state, begun.revision, begun.run_from, begun.halts) == (JobState.DISPATCHING, 2, 2, 1)
    assert (begun.totals.items, begun.done, begun.dispatch_cursor, begun.finished_at) == (0, 0, 0, None)
    found = app.read("rate")
    assert (found.state, found.revision, found.id_base, found.totals.items) == (
        JobState.COMPLETE,
        2,
        first.id_base,
        first.totals.items,
    )
    assert found.totals.accepted.items == first.totals.accepted.items
    assert {row.revision for row in app.stores.ledger.rows("rate")} == {2}
    once, twice = totals(app, "rate", 1), totals(app, "rate", 2)
    assert {shop: 2 * amount for shop, amount in once[0].items()} == twice[0]
    assert (once[1], twice[1]) == ({"rate"}, {"rate!r2"})
    assert (manifest(app, "rate", 1), manifest(app, "rate", 2).totals_partitions) == (before, ["rate!r2"])
    assert announced(app, "rate") == ["complete", "complete"]
    assert halts(app) == ({}, set())
    assert [one.revision for one in found.story if one.state is JobState.DISPATCHING][-1] == 2


def test_a_second_rerun_has_a_partition_of_its_own(app, tariff):
    """However many there are, a diff finds each."""
    app.run("thrice", 2)
    for factor in (2, 3):
        tariff.factor = factor
        rerun(app, "thrice")
    found = [totals(app, "thrice", revision) for revision in (1, 2, 3)]
    assert [one[1] for one in found] == [{"thrice"}, {"thrice!r2"}, {"thrice!r3"}]
    assert {shop: 3 * amount for shop, amount in found[0][0].items()} == found[2][0]


def test_a_paused_job_runs_again_from_its_first_chunk(app, tariff):
    """Its messages and results of before count no more, however late they come. A repeated act begins nothing."""
    begin(app, "wrong")
    app.deliver("work-00")
    paused = app.stores.job_operator.pause("wrong", **WHY)
    assert app.bus.waiting("results")
    tariff.factor = 2
    operator = app.stores.job_operator
    begun = operator.rerun("wrong", **AGAIN, revision=1)
    assert (begun.revision, begun.halts, begun.problem, begun.by) == (2, paused.halts + 1, None, None)
    assert halts(app)[0] == {"wrong": begun.halts}
    assert operator.rerun("wrong", **AGAIN, revision=1).revision == 2
    while app._settle():
        pass
    assert app.read("wrong").totals.items == 0
    tick(app, 4)
    found = app.read("wrong")
    assert (found.state, found.revision, found.done, found.totals.accepted.items) == (
        JobState.COMPLETE,
        2,
        CHUNKS,
        2 * CHUNKS,
    )
    assert {row.revision for row in app.stores.ledger.rows("wrong")} == {2}
    assert sum(totals(app, "wrong", 2)[0].values()) == 2 * sum(Decimal(one) for one in amounts(app, "wrong"))
    assert totals(app, "wrong", 1) == ({}, set())
    with pytest.raises(ActStaleError, match="is at revision 2, you saw 0"):
        operator.rerun("wrong", **AGAIN, revision=0)


def amounts(app, job):
    """Return the amounts that a job of this many chunks was sent."""
    return [sale["amount"] for sale in sales(*"ab" * app.read(job).chunks)]


def test_a_stopped_job_and_one_that_a_settler_credits_late(app):
    """A result of the run before is dropped also where its chunk has not ended in this one."""
    begin(app, "late")
    app.deliver("work-00")
    kept = list(app.bus.waiting("results"))
    app.bus.complete(kept)
    app.stores.job_operator.stop("late", **WHY)
    begun = app.stores.job_operator.rerun("late", **AGAIN)
    assert begun.state is JobState.DISPATCHING
    for letter in kept:
        app.bus.send("results", "result", letter.body, "")
    tick(app, 3)
    found = app.read("late")
    assert (found.state, found.done, found.totals.accepted.items) == (JobState.COMPLETE, CHUNKS, 2 * CHUNKS)
    assert not list(app.stores.parked_table.entries("late"))


def test_open_entries_of_the_run_before_are_closed(app, tariff):
    """A replay of them is refused, and one that was sent before has no effect. A replay of the new run is as ever."""
    tariff.breaks_at = {"a": PERMANENT}
    app.submit("parked", 2)
    app.work_off()
    assert app.read("parked").state is JobState.COMPLETED_WITH_PARKED
    (entry,) = (one for one in app.stores.parked_table.entries("parked") if one.chunk == 0)
    body = app.stores.parked_table.body(entry)
    begun = app.stores.job_operator.rerun("parked", **AGAIN)
    closed = app.stores.parked_table.find("parked", entry.key)
    assert (begun.revision, closed.state, closed.note) == (2, EntryState.DISCARDED, "its job ran again at revision 2")
    tick(app, 2)
    found = app.read("parked")
    assert (found.state, found.revision, found.parked_chunks) == (JobState.COMPLETED_WITH_PARKED, 2, 2)
    tariff.breaks_at = {}
    app.others.queues.get_queue_client("work-00").send_message(body.decode(), time_to_live=-1)
    tick(app)
    assert app.read("parked").parked_chunks == 2
    replayer = app.stores.build_parked_operator(lambda _: app.work_off())
    assert {one.revision for one in replayer.select(Selection(job="parked"))} == {2}
    list(replayer.replay(Selection(job="parked"), ReplayPace(patience=5), by="ann"))
    tick(app, 2)
    found = app.read("parked")
    assert (found.state, found.revision, found.run_from) == (JobState.COMPLETE, 4, 2)
    assert totals(app, "parked", 4)[1] == {"parked!r2"}


def test_a_message_of_the_run_before_that_fails_late_is_dropped(app, tariff):
    """Its halt row is gone by then. No replay could send it again, so an entry would stay open for ever."""
    begin(app, "stale")
    app.stores.job_operator.pause("stale", **WHY)
    app.stores.job_operator.rerun("stale", **AGAIN)
    app.clock.advance(minutes=4)
    app.app.tick()
    look(app)
    assert halts(app) == ({}, set())
    tariff.breaks_at = {"a": PERMANENT, "b": PERMANENT}
    assert app.deliver("work-00")
    assert list(app.stores.parked_table.entries("stale")) == []
    tariff.breaks_at = {}
    tick(app, 3)
    assert (app.read("stale").state, app.read("stale").parked_chunks) == (JobState.COMPLETE, 0)


def test_it_may_have_lines_now(app):
    """The job's row says so to all of its chunks, as at its acceptance."""
    app.run("lined", 2)
    assert app.read("lined").lines is True
    rerun(app, "lined", lines=False)
    assert [part.name for part in manifest(app, "lined", 2).parts] == ["output-000000.ndjson.zst"]
    rerun(app, "lined", lines=True)
    assert "lines-" in "".join(part.name for part in manifest(app, "lined", 3).parts)


def test_a_job_that_was_stopped_behind_its_gate_waits_for_it_again(app):
    """Also when its gate was never opened."""
    app.submit("held", 2, gate="nightly")
    app.work_off()
    app.stores.job_operator.stop("held", **WHY)
    assert app.stores.job_operator.rerun("held", **AGAIN).state is JobState.HELD
    tick(app, 2)
    assert app.read("held").state is JobState.HELD
    app.stores.gate_operator.open("nightly", by="ann")
    tick(app, 2)
    assert (app.read("held").state, app.read("held").revision) == (JobState.COMPLETE, 2)


def test_its_retention_begins_with_its_last_end(app):
    """The pointer of its first end comes first."""
    app.run("kept", 2)
    tick(app)
    app.clock.advance(days=SETTINGS.retention.days - 1)
    rerun(app, "kept")
    tick(app)
    assert app.read("kept").state is JobState.COMPLETE
    app.clock.advance(days=2)
    tick(app)
    assert app.read("kept").state is JobState.COMPLETE
    app.clock.advance(days=SETTINGS.retention.days)
    tick(app)
    found = app.read("kept")
    assert (found.state, found.run_from, found.revision) == (JobState.BURIED, 2, 2)
    with pytest.raises(JobStateError, match=f"its payload was removed on {found.listed_at:%Y-%m-%d}"):
        app.stores.job_operator.rerun("kept", **AGAIN)


def test_a_process_that_dies_after_the_row_leaves_the_rest_to_the_tick(app, monkeypatch):
    """The job is at its new revision, and two pointers lead to it."""
    begin(app, "half")
    app.stores.job_operator.pause("half", **WHY)
    monkeypatch.setattr(type(app.stores.fleet), "halt", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        app.stores.job_operator.rerun("half", **AGAIN)
    monkeypatch.undo()
    tick(app, 3)
    found = app.read("half")
    assert (found.state, found.revision, found.totals.accepted.items) == (JobState.COMPLETE, 2, 2 * CHUNKS)
    assert halts(app) == ({}, set())


def test_what_cannot_run_again_is_refused_before_anything_is_written(app):
    """A person reads what to do first."""
    operator, job = app.stores.job_operator, begin(app, "refused")
    for state in (JobState.PLANNING, JobState.HELD, JobState.DISPATCHING, JobState.RUNNING, JobState.FINISHING):
        written = app.stores.ledger.commit(replace(app.read("refused"), state=state))
        with pytest.raises(JobStateError, match=f"it is {state.value}: pause or stop it first"):
            operator.rerun("refused", **AGAIN)
        assert app.read("refused") == written
    planless = app.stores.ledger.commit(replace(app.read("refused"), state=JobState.STOPPED, plan=None))
    with pytest.raises(JobStateError, match="it was stopped before it had a plan"):
        operator.rerun("refused", **AGAIN)
    app.stores.ledger.commit(replace(planless, plan=job.plan))
    with pytest.raises(ActStaleError, match="was changed since you saw it"):
        operator.rerun("refused", **AGAIN, seen="another")
    with pytest.raises(JobStateError, match="it is not known"):
        operator.rerun("never", **AGAIN)
    look(app)


def test_it_is_refused_while_a_process_of_before_works(app):
    """It would take a row of the run before for one of the new run."""
    app.run("mixed", 2)
    fleet, now = Stores(app.others).fleet, app.clock.now()
    older = Worker(name="old", at=now, started_at=now, in_flight=1, done=0, busy=0.0, version="0.4.0")
    fleet.report(older)
    with pytest.raises(JobStateError, match=r"1 processes of before 0\.5\.0 work now"):
        app.stores.job_operator.rerun("mixed", **AGAIN)
    fleet.report(replace(older, version="0.5.0"))
    assert app.stores.job_operator.rerun("mixed", **AGAIN).revision == 2
    tick(app, 2)
