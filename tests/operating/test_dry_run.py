"""A dry run of a real finished job: the same code finds nothing, other code finds its changes."""

import asyncio
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType

import pytest

from shared.app import Stores, build_dry_runner
from shared.errors import CallsOutsideError, DryRunError, FinishRefusedError, JobStateError, NoSlotError
from shared.ledger import Job
from shared.operating import choose_chunks
from shared.operating.differences import MOST_KEPT, Counted
from shared.pipeline import CUT_ABOVE, Finisher
from shared.publish import Publisher
from shared.topology import payload_container, submission_queue, topology
from shared.workloads import Line, Rejected, Total
from tests.faults.sales import PERMANENT, LinedSales, LongLinedSales, SplitSales
from tests.faults.world import NOON, SETTINGS, SMALL, sales
from tests.pipeline.whole_app import app_in_memory
from tests.process.world import Sales

#: Twelve sales in six chunks; those of the third and the fifth chunk without a shop are rejected.
SHOPS = ("a", "b", "a", "c", "", "b", "a", "b", "c", "", "a", "a")


class Dearer(Sales):
    """Shop b pays a euro more for each sale."""

    def map(self, sale, number):
        """Add it."""
        found = super().map(sale, number)
        return (sale.shop, sale.amount + 1) if sale.shop == "b" else found


class Stricter(Sales):
    """It rejects shop c, and gives another reason than before."""

    def map(self, sale, _number):
        """Reject it."""
        return (sale.shop, sale.amount) if sale.shop in {"a", "b"} else Rejected("not_ours", sale.shop)


class Failing(Sales):
    """It cannot take shop c."""

    def map(self, sale, number):
        """Raise for it."""
        if sale.shop == "c":
            raise ValueError("no tariff for c")
        return super().map(sale, number)


class Listed(Sales):
    """Its partial has another form, and comes to the same."""

    partial = list[tuple[str, Decimal]]

    def combine(self, mapped):
        """Keep all."""
        return list(mapped)

    def merge(self, left, right):
        """Keep all."""
        return left + right

    def finish(self, partial):
        """Finish them as before."""
        yield from super().finish(Sales().combine(partial))


class Waiting(Sales):
    """It waits for others."""

    async def map(self, sale, number):
        """Wait."""
        await asyncio.sleep(0)
        return super().map(sale, number)


class Limited(Sales):
    """It calls others, and not too often."""

    limits = MappingProxyType({"bank": "100/s"})


@pytest.fixture(scope="module")
def app():
    """An app on storage of its own, with two ended jobs: one complete, one with a parked chunk."""
    workload = Sales()
    with app_in_memory(workload=workload) as made:
        publish(made, "done", SHOPS)
        made.work_off()

        def fail(sale):
            if sale.shop == "c":
                raise PERMANENT()  # noqa: RSE102 - it is a function

        workload.fault = fail
        publish(made, "parked", "caba")
        made.work_off()
        yield made


def publish(app, job, shops):
    """Drop one sale a shop."""
    queue = app.others.queues.get_queue_client(submission_queue(""))
    payloads = app.others.blobs.get_container_client(payload_container(""))
    Publisher(queue, payloads, limits=SMALL).submit(job=job, transactions=sales(*shops), workload="sales")


@pytest.fixture
def runner(app):
    """A runner over the app's storage, by other clients."""
    return build_dry_runner(Stores(app.others, clock=app.clock), SETTINGS)


@pytest.fixture
def run(app, runner):
    """Run a job dry, with a workload."""
    return lambda workload, wanted="all", job="done", **options: runner.run(app.read(job), workload, wanted, **options)


def everything(connections):
    """Return all rows, blobs and messages of an installation, with their ETags."""
    found, parts = {}, topology()
    for name in parts.tables:
        with connections.tables.get_table_client(name) as table:
            for row in table.list_entities():
                found[name, row["PartitionKey"], row["RowKey"]] = row.metadata["etag"], dict(row)
    for name in parts.containers:
        container = connections.blobs.get_container_client(name)
        for blob in container.list_blobs():
            content = container.download_blob(blob.name, decompress=False).readall()
            found[name, blob.name] = blob.etag, blob.last_modified, blob.lease.state, content
    for name in parts.queues:
        messages = connections.queues.get_queue_client(name).peek_messages(32)
        found[name] = [(one.id, one.content) for one in messages]
    return found


@pytest.mark.parametrize(("wanted", "compared"), [("all", 6), ("50%", 3), ("1", 1), ("600", 6)])
def test_the_same_code_differs_in_nothing_and_writes_nothing(app, run, wanted, compared):
    """Over all chunks, against the stored totals, and over some, against their results. Storage is the same, byte for byte."""
    before = everything(app.others)
    found = run(Sales(), wanted)
    assert not found.differs
    assert (found.compared, found.is_whole) == (compared, compared == 6)
    assert found.totals.equal == len({"a", "b", "c"} if compared > 1 else {"a", "b"})
    assert found.output.now.count == found.totals.equal
    assert everything(app.others) == before
    if compared == 6:
        assert found.accepted.now.items == found.accepted.before.items == 10
        assert found.rejected.now.sums == found.rejected.before.sums == {"amount": Decimal("15.20")}


@pytest.mark.parametrize("wanted", ["all", "3"])
def test_a_changed_tariff_names_the_accounts_with_their_amounts(run, wanted):
    """Nothing of a chunk's counts has changed, and yet it differs."""
    found = run(Dearer(), wanted)
    assert found.differs
    assert (found.differing.count, found.failures.count, found.rejections.count) == (0, 0, 0)
    (change,) = found.totals.changes
    count = 3 if wanted == "all" else 2
    assert change.account == "b"
    assert Decimal(change.now["amount"]) - Decimal(change.before["amount"]) == count
    assert found.totals.amounts == {"amount": count}
    assert not found.output.now.is_same(found.output.before)
    (gone,), (new,) = (
        found.output.before.list_missing(found.output.now),
        found.output.now.list_missing(found.output.before),
    )
    assert (change.before["amount"] in gone, change.now["amount"] in new) == (True, True)


def test_what_is_rejected_otherwise_is_named_by_number(app, run):
    """One that was accepted, and one with another reason. An account is gone."""
    found, first = run(Stricter()), app.read("done").id_base
    assert [(one.number - first, one.before, one.now) for one in found.rejections.first] == [
        (3, None, "not_ours: c"),
        (4, "no_shop: the shop is empty", "not_ours"),
        (8, None, "not_ours: c"),
        (9, "no_shop: the shop is empty", "not_ours"),
    ]
    assert [one.chunk for one in found.differing.first] == [1, 2, 4]
    assert [(one.account, one.now) for one in found.totals.changes] == [("c", None)]
    assert (found.accepted.before.items, found.accepted.now.items) == (10, 8)


def test_a_transaction_that_raises_now_is_said_by_number(app, run):
    """It ends nothing: the others are compared. Its chunk is in no total: of some chunks on neither side."""
    found, first = run(Failing()), app.read("done").id_base
    assert found.differs
    assert found.totals is found.output is None
    assert [(one.chunk, one.number - first, one.failed) for one in found.failures.first] == [(1, 3, 1), (4, 8, 1)]
    assert "ValueError: no tariff for c; 1 of 2 transactions failed" in found.failures.first[0].found
    assert "test_dry_run.py" in found.failures.first[0].place
    assert found.compared == 4
    some = run(Failing(), "5")
    assert (some.failures.count, some.compared) == (2, 3)
    assert (some.totals.changes, some.output.now.is_same(some.output.before)) == ([], True)


def test_a_workload_that_exits_or_returns_nonsense_fails_its_chunk(run):
    """As it would in a worker. The next chunk is compared."""

    class Nonsense(Sales):
        def combine(self, mapped):
            return object() if len(mapped) == 1 else super().combine(mapped)

    assert run(Nonsense()).failures.count == 2


def test_a_parked_chunk_has_no_result_and_is_not_run(run):
    """It is said, with its reason. What was stored of the others is still the other side."""
    found = run(Sales(), job="parked")
    assert not found.differs
    assert [(one.chunk, one.parked) for one in found.missing.first] == [(0, "bad_sale")]
    assert (found.compared, found.is_whole, found.totals.equal) == (1, True, 2)
    with pytest.raises(DryRunError, match=r"none of the 1 chosen chunks .* 1 of its 2 chunks are done"):
        run(Sales(), "1", job="parked")


def test_a_partial_of_another_form_needs_all_chunks(run):
    """Then the stored totals are the other side, and no partial of before is read."""
    with pytest.raises(DryRunError, match=r"another form .*: compare with --chunks all$"):
        run(Listed(), "2")
    assert not run(Listed()).differs


@pytest.mark.parametrize(("workload", "why"), [(Waiting(), "waits for others"), (Limited(), "has limits")])
def test_a_workload_that_may_act_outside_is_run_only_if_that_is_said(run, workload, why):
    """Its calls cannot be taken back."""
    with pytest.raises(CallsOutsideError, match=rf"{why}.*: add --calls-outside"):
        run(workload)


def test_a_workload_that_waits_is_run_if_that_is_said(run):
    """Its calls wait side by side, as in an instance."""
    assert not run(Waiting(), may_call=True).differs


def test_calls_with_limits_wait_for_their_turns(app, runner):
    """Each takes one, as in an instance. Where others have them all, that is said."""
    turns = []

    class Turn:
        def begin(self):
            turns.append(1)
            return True

    paced = replace(runner, pace=lambda _workload: nullcontext(Turn()))
    assert not paced.run(app.read("done"), Limited(), "all", may_call=True).differs
    assert len(turns) == len(SHOPS)

    @contextmanager
    def refuse(_workload):
        raise NoSlotError("busy", waits_for="the limit bank (100/s)")
        yield

    with pytest.raises(DryRunError, match=r"other processes have the limit bank \(100/s\): try again"):
        replace(runner, pace=refuse).run(app.read("done"), Limited(), "all", may_call=True)


def test_limits_are_kept_by_the_leases_of_the_app(app):
    """They are all that a dry run writes, and they are given back."""
    runner, before = build_dry_runner(Stores(app.others), SETTINGS), everything(app.others)
    assert not runner.run(app.read("done"), Limited(), "all", may_call=True).differs
    after = everything(app.others)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert {(name[0], name[1].rpartition("-")[0]) for name in changed} == {("permits", "rate-bank")}
    assert {after[name][2] for name in changed} == {"available"}


def test_a_job_without_a_plan_or_a_payload_is_refused(app, runner):
    """There is nothing to run yet, or any more."""
    planning = Job(job="new", content_hash="", workload="sales", accepted_at=NOON)
    with pytest.raises(JobStateError, match="'new' is planning: it has no plan yet"):
        runner.run(planning, Sales(), "all")
    with pytest.raises(JobStateError, match="buried: it ended on 2026-11-20, and its payload was removed"):
        runner.run(app.read("done").tombstone(), Sales(), "all")


def test_a_job_that_goes_on_meanwhile_is_to_be_compared_again(app, runner):
    """A replay ended: the stored totals are of its revision."""
    job = app.read("done")
    with pytest.raises(DryRunError, match="went on meanwhile, from revision 0: do it again"):
        runner.run(replace(job, revision=0), Sales(), "all")


def test_the_merged_partials_are_bounded(app, runner):
    """More than the bound is refused, with the way out."""
    with pytest.raises(FinishRefusedError, match="the limit is 20: compare fewer chunks"):
        replace(runner, merged_most=20).run(app.read("done"), Sales(), "all")


def test_two_totals_of_one_account_are_refused_as_in_a_finish(run):
    """They would overwrite each other."""

    class Twice(Sales):
        def finish(self, partial):
            yield from (Total("a", {"n": number}) for number in range(2))

    with pytest.raises(FinishRefusedError, match="two totals for account 'a'"):
        run(Twice())


def test_each_chunk_is_told_of(run):
    """For a person who waits."""
    told = []
    run(Sales(), "2", report=lambda done, of: told.append((done, of)))
    assert told == [(1, 2), (2, 2)]


@pytest.mark.parametrize("cut_above", [CUT_ABOVE, 0])
def test_totals_in_shards_are_the_other_side_too(cut_above):
    """Those of all partitions, and the lines of all parts, in whichever order they were written."""
    with app_in_memory(workload=SplitSales()) as app:
        finisher = app.app.stages.finisher
        made = Finisher(replace(finisher._tools, shard_bytes=1, span_bytes=1))
        finisher._segments = replace(made._segments, segment_chunks=2, shards=4, cut_above=cut_above)
        finisher._shards = made._shards
        publish(app, "sharded", "abcdefgh")
        app.work_off()
        job, stores = app.read("sharded"), Stores(app.others, clock=app.clock)
        assert len({one["PartitionKey"] for one in stores.totals.rows("sharded", 1)}) > 1
        runner = build_dry_runner(stores, SETTINGS)
        found = runner.run(job, SplitSales(), "all")
        assert (found.differs, found.totals.equal, found.output.before.count) == (False, 8, 8)


@pytest.mark.parametrize("workload", [LinedSales, LongLinedSales])
def test_lines_are_compared_one_by_one(workload):
    """The same ones, others, and none: long ones too, which lie apart from their results."""

    class Others(workload):
        def lines(self, sale, number, sold):
            yield from super().lines(sale, number, sold)
            if sale.shop == "b":
                yield Line({"more": number})

    class Without(workload):
        lines = None

        def __getattribute__(self, name):
            if name == "lines":
                raise AttributeError(name)
            return super().__getattribute__(name)

    with app_in_memory(workload=workload()) as app:
        app.run("lined", 2)
        job, runner = app.read("lined"), build_dry_runner(Stores(app.others, clock=app.clock), SETTINGS)
        same = runner.run(job, workload(), "all")
        assert (same.differs, tuple(same.line_counts)) == (False, (4, 4))
        other = runner.run(job, Others(), "all")
        assert [(one.chunk, one.place, one.before) for one in other.lines.first] == [(0, 2, None), (1, 2, None)]
        assert (other.differs, tuple(other.line_counts), other.totals.changes) == (True, (4, 6), [])
        none = runner.run(job, Without(), "all")
        assert (none.lines.count, tuple(none.line_counts), none.lines.first[0].now) == (4, (4, 0), None)


@pytest.mark.parametrize(
    ("wanted", "chunks", "chosen"),
    [
        ("all", 3, [0, 1, 2]),
        ("1%", 3, [0]),
        ("1%", 1250, [place * 1250 // 13 for place in range(13)]),
        ("0.1%", 1250, [0, 625]),
        ("100%", 3, [0, 1, 2]),
        ("2", 5, [0, 2]),
        ("9", 3, [0, 1, 2]),
    ],
)
def test_chunks_are_evenly_spaced(wanted, chunks, chosen):
    """At least one, at most all."""
    assert list(choose_chunks(wanted, chunks)) == chosen


@pytest.mark.parametrize("wanted", ["", "0", "0%", "101%", "-1", "1.5", "some", "1 %"])
def test_what_names_no_chunks_is_refused(wanted):
    """With the forms that are taken."""
    with pytest.raises(ValueError, match="write a number of them, a share such as 1%, or all"):
        choose_chunks(wanted, 3)


def test_of_many_differences_the_first_are_kept():
    """All are counted."""
    found = Counted()
    for number in range(MOST_KEPT + 1):
        found.add(number)
    assert (found.count, found.first) == (MOST_KEPT + 1, list(range(MOST_KEPT)))
