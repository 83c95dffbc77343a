"""The totals of two runs of a job are compared as they are stored, account by account."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from shared.app import Stores
from shared.errors import JobStateError
from shared.grammar import texts
from shared.operating.differences import AccountChange
from shared.pipeline import Finisher
from shared.workloads import Total
from tests.faults.sales import SplitSales
from tests.operating.test_dry_run import publish as submit
from tests.pipeline.whole_app import running_app
from tools.cli.diff_view import diff_in_words, list_diff_pieces

AGAIN = {"by": "ann", "why": "tariff corrected"}


class Totals(SplitSales):
    """The totals that a test wants, whichever the transactions."""

    def __init__(self):
        super().__init__()
        self.wanted = {}

    def finish(self, partial):
        """Yield those of the shops of this cut."""
        shops = {sale.shop for sale in partial}
        yield from (Total(shop, dict(self.wanted[shop])) for shop in sorted(shops & self.wanted.keys()))


@pytest.fixture(scope="module")
def app():
    """An app that publishes in four shards where a test wants it."""
    with running_app(workload=Totals()) as made:
        finisher = made.app.stages.finisher
        sharded = Finisher(replace(finisher._tools, shard_bytes=1, span_bytes=1))
        made.ways = {
            True: (replace(sharded._segments, segment_chunks=2, shards=4), sharded._shards),
            False: (finisher._segments, finisher._shards),
        }
        yield made


def deploy(app, totals, *, in_shards=False):
    """Have the deployed code come to these totals from now on."""
    app.app.stages.workloads.find("sales").wanted = totals
    finisher = app.app.stages.finisher
    finisher._segments, finisher._shards = app.ways[in_shards]


def run(app, job, shops, totals, **how):
    """Run a job to its end."""
    deploy(app, totals, **how)
    submit(app, job, shops)
    app.work_off()


def run_again(app, job, totals, **how):
    """Run it again to its end."""
    deploy(app, totals, **how)
    app.stores.job_operator.rerun(job, **AGAIN)
    app.app.stages.starter.go_on(job)
    app.work_off()


def compare(app, job, before=None, now=None):
    """Return what the comparison found, and each change."""
    reader = Stores(app.others).diff_reader
    manifests = reader.choose(app.read(job), before, now)
    found = reader.begin(manifests)
    return found, list(reader.compare(manifests, found))


SHOPS = "abcdefgh"
ONCE = {shop: {"amount": f"{n}.50", "calls": n} for n, shop in enumerate(SHOPS[:6])}
AGAIN_TOTALS = {**ONCE, "b": {"amount": "2.00", "calls": 1}, "g": {"amount": "7.00"}}
del AGAIN_TOTALS["a"]


@pytest.mark.parametrize("ways", [(False, False), (False, True), (True, True), (True, False)])
def test_accounts_are_compared_whatever_their_shards(app, ways):
    """Equal, others, new and gone, each once, in the order of their keys."""
    job = "-".join(("rate", *(f"{way:d}" for way in ways)))
    run(app, job, SHOPS, ONCE, in_shards=ways[0])
    run_again(app, job, AGAIN_TOTALS, in_shards=ways[1])
    found, changes = compare(app, job)
    assert (found.revisions, found.rows, found.differs) == ((1, 2), (6, 6), True)
    assert changes == [
        AccountChange("a", {"amount": "0.50", "calls": 0}, None),
        AccountChange("b", {"amount": "1.50", "calls": 1}, {"amount": "2.00", "calls": 1}),
        AccountChange("g", None, {"amount": "7.00"}),
    ]
    totals = found.totals
    assert (totals.equal, totals.differ, totals.new, totals.gone) == (4, 1, 1, 1)
    assert texts(totals.amounts) == {"amount": "7.00"}
    assert totals.changes == []


def test_a_person_and_a_program_read_the_same(app):
    """A person the first ten, a program all."""
    run(app, "said", SHOPS, ONCE)
    run_again(app, "said", AGAIN_TOTALS)
    found, changes = compare(app, "said")
    words = diff_in_words(*restart(found, changes))
    assert words == [
        "job said, revision 1 -> 2: accepted 8 = 8, rejected 0 = 0, parked 0 = 0",
        "accounts 7: 4 equal, 1 differ, 1 new, 1 gone; amount +7.00",
        "  a gone: amount 0.50, calls 0",
        "  b  amount 1.50 -> 2.00",
        "  g new: amount 7.00",
        "status 1: they differ",
    ]
    document = json.loads("".join(list_diff_pieces(*restart(found, changes))))
    assert document["accounts"][1] == {
        "account": "b",
        "total_before": {"amount": "1.50", "calls": 1},
        "total_now": {"amount": "2.00", "calls": 1},
    }
    assert {
        name: document[name] for name in ("before", "now", "equal", "differ", "new", "gone", "amounts", "differs")
    } == {
        "before": 1,
        "now": 2,
        "equal": 4,
        "differ": 1,
        "new": 1,
        "gone": 1,
        "amounts": {"amount": "7.00"},
        "differs": True,
    }


def restart(found, changes):
    """Return what was found as it is before the changes are read, whose end counts them."""
    return found, iter(changes)


def test_revisions_are_named_or_are_the_last_of_two_runs(app):
    """A revision that a replay or another version replaced cannot be compared."""
    run(app, "named", SHOPS, ONCE)
    run_again(app, "named", AGAIN_TOTALS)
    run_again(app, "named", ONCE)
    assert compare(app, "named")[0].revisions == (2, 3)
    assert compare(app, "named", now=2)[0].revisions == (1, 2)
    found, changes = compare(app, "named", 1, 3)
    assert (found.differs, changes, found.totals.equal) == (False, [], 6)
    with pytest.raises(JobStateError, match="revision 4 has no outputs, the job is complete"):
        compare(app, "named", now=4)
    with pytest.raises(JobStateError, match="revision 7 has no outputs"):
        compare(app, "named", before=7)
    Stores(app.others).totals.take("named", 9)
    with pytest.raises(
        JobStateError, match="revision 1 of job 'named': its totals were replaced by those of revision 9"
    ):
        compare(app, "named", 1, 3)


def test_counts_that_differ_are_a_difference(app):
    """Also where no total does."""
    run(app, "counts", SHOPS, {})
    run_again(app, "counts", {})
    found, changes = compare(app, "counts")
    assert (found.differs, changes, found.rows) == (False, [], (0, 0))
    assert found.portions["accepted"].now.sums == {"amount": Decimal(found.portions["accepted"].before.sums["amount"])}
    found.portions = {**found.portions, "rejected": found.portions["accepted"]}
    accepted = found.portions["accepted"]
    found.portions = {"accepted": accepted._replace(now=replace(accepted.now, items=7))}
    assert found.differs
