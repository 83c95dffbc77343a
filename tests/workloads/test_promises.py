"""The check of a workload's promises: each planted fault is found by its name, and a sound workload passes."""

# ruff: noqa: D102 - the contract says what the methods of a workload do

import json
from collections.abc import Sequence

import pytest

from docs.examples.enrichment import Enrichment
from shared.ledger import MERGED_MOST
from shared.pipeline import LARGEST, STREAM_MOST
from shared.promises.check import shrink
from shared.promises.measure import SAMPLE, Measured, measure
from shared.promises.promises import PROMISES, State
from shared.promises.subject import Subject
from shared.workloads import Later, Line
from shared.workloads.billing import Billing
from sluice.testing import check_workload
from tests.examples.test_enrichment import Accounts, by_first_letter
from tests.workloads import faulty

LINES = [
    json.dumps({"shop": f"shop-{n * 7 % 23}", "amount": "-1" if n == 40 else f"{n % 9 + 1}.{n % 100:02}"}).encode()
    for n in range(60)
]


class Clock:
    """A clock that only the workload moves."""

    now = 0.0

    def __call__(self):
        return self.now


def check(workload, lines=LINES):
    """Check by a clock that stands still, so that no machine is too slow."""
    return check_workload(workload, lines, clock=Clock())


def named(report):
    """Return the promises that are broken."""
    return [one.promise for one in report.findings]


@pytest.mark.parametrize(("fault", "promise"), faulty.FAULTS.items(), ids=lambda one: getattr(one, "__name__", one))
def test_a_planted_fault_is_found_by_its_name(fault, promise):
    """With a few lines of the sixty, and nothing else is blamed. The order of a set may need more than two."""
    report = check(fault())
    assert named(report) == [promise], report
    (finding,) = report.findings
    assert 1 <= len(finding.lines) <= (8 if fault is faulty.SetOrder else 2)
    assert set(finding.lines) <= set(LINES)
    assert str(finding).startswith(f"✗ {finding.says}\n    {finding.found}\n    remedy: {finding.remedy}\n    {{")


def test_map_is_called_as_often_as_the_page_says():
    """Whoever has a service behind it wants to know."""
    asked = []

    class Counting(faulty.Shops):
        def map(self, sale, number):
            asked.append(sale.shop)
            return super().map(sale, number)

    few = [b'{"shop":"s%d","amount":"1"}' % n for n in range(50)]
    assert named(check(Counting(), few)) == []
    assert 20 * len(few) < len(asked) < 40 * len(few)


@pytest.mark.parametrize("fault", faulty.FAULTS, ids=lambda one: one.__name__)
def test_a_mended_fault_is_found_no_more(fault):
    """With the methods of the sound workload instead of its own."""
    sound = {
        name: getattr(faulty.Shops, name) for name in vars(fault) if name in dir(faulty.Shops) and name[:2] != "__"
    }
    assert named(check(type("Mended", (fault,), sound)())) == []


@pytest.mark.parametrize("workload", [faulty.Shops(), Billing()], ids=lambda one: one.name)
def test_a_workload_that_keeps_its_promises_passes(workload):
    """Every promise is tried, in another process too, and rejected lines are no fault."""
    usage = [
        b'{"account":"a-%d","plan":"%s","quantity":"%d.5"}' % (n % 7, [b"basic", b"no"][n % 5 == 0], n + 1)
        for n in range(40)
    ]
    report = check(workload, LINES if isinstance(workload, faulty.Shops) else usage)
    assert [one.promise for one in report.trials[: len(PROMISES)]] == [one.key for one in PROMISES]
    assert {one.state for one in report.trials} == {State.KEPT}, report
    assert sum(report.measured.rejected.values()) in {1, 8}


def test_a_workload_that_calls_a_service_passes():
    """The example: its object cannot be built by name alone, so no other process is tried, and the report says so."""
    with Accounts(by_first_letter) as service:
        report = check(
            Enrichment(service.url), [b'{"account":"%s1","amount":"0.1"}' % one for one in (b"a", b"b", b"x")]
        )
    assert named(report) == [], report
    assert [one.promise for one in report.trials if one.state is State.NOT_TRIED] == ["process", "whole", "shard"]
    assert report.measured.rejected == {"unknown_account": 1}


def test_a_service_that_is_away_leaves_nothing_tried():
    """Not a fault of the workload, but a test that asserts no findings must not pass."""
    report = check(Enrichment("http://127.0.0.1:9"), [b'{"account":"a","amount":"1"}'])
    assert [(one.promise, "does not answer" in one.found) for one in report.findings] == [("runs", True)]


def test_a_slow_map_is_found_in_bounded_time():
    """By the clock: a sixteenth of a second for a transaction. A million lines are not all run."""
    clock = Clock()
    report = check_workload(faulty.SlowMap(clock), (LINES[n % 40] for n in range(1_000_000)), clock=clock)
    assert named(report) == ["speed"], report
    assert "takes 62 ms, so a chunk of 1,000 takes 62 s" in report.findings[0].found
    assert "SLUICE_CHUNK_ITEMS to 240 or less" in report.findings[0].found
    assert report.measured.lines == 1_000_000
    assert clock.now < 120
    quick = Clock()
    assert named(check_workload(faulty.Shops(), LINES, clock=quick)) == []


@pytest.mark.parametrize(
    ("workload", "lines", "promise", "found"),
    [
        (object(), LINES, "usable", "it has no map, combine, merge, finish"),
        (faulty.Shops(), [], "tried", "there is no line"),
        (
            faulty.Shops(),
            [b"{}", b"no json", b'{"shop":"a","amount":"-1"}'],
            "tried",
            "bad_amount, does_not_fit, not_json",
        ),
    ],
)
def test_nothing_passes_because_nothing_was_tried(workload, lines, promise, found):
    """It raises nothing: the finding says it."""
    report = check(workload, lines)
    assert named(report) == [promise]
    assert found in report.findings[0].found


def test_a_merge_that_fails_is_found():
    """As its own fault, also where the pass over all lines meets it first."""
    for lines in (LINES, LINES * 4):
        report = check(faulty.MergeRaises(), lines)
        assert "associative" in named(report)
        assert all("AttributeError: 'dict' object has no attribute 'add'" in one.found for one in report.findings)


def test_a_class_of_a_function_is_tried_in_this_process_alone():
    """Another process cannot import it, which the report says."""

    class Inner(faulty.Shops):
        pass

    (left_out,) = [one for one in check(Inner()).trials if one.state is State.NOT_TRIED]
    assert left_out.promise == "process"
    assert "Inner cannot be loaded there" in left_out.found


def test_a_sample_shrinks_to_the_lines_that_matter_in_bounded_trials():
    """Two of a thousand; and a breach that comes and goes ends too."""
    lines = [b"%d" % n for n in range(1_000)]
    ran = []

    def needs_both(some: Sequence[bytes]):
        ran.append(len(some))
        return "both" if {b"17", b"801"} <= set(some) else None

    assert shrink(lines, "whole", needs_both) == ([b"17", b"801"], "both")
    assert sum(ran) <= 22 * len(lines)
    turns = iter(range(10**9))
    least, _ = shrink(lines, "whole", lambda _some: "odd" if next(turns) % 2 else None)
    assert len(least) >= 1


def test_a_large_file_has_the_same_sample_each_time():
    """Drawn from all of it, in the order of the file."""
    lines = [b'{"shop":"%d","amount":"1"}' % n for n in range(2 * SAMPLE)]
    first, second = (measure(Subject.of(faulty.Shops()), lines, Clock()) for _ in range(2))
    assert first.sample == second.sample
    place = {line: number for number, line in enumerate(lines)}
    places = [place[line] for line in first.sample]
    assert places == sorted(set(places))
    assert len(places) == SAMPLE
    assert places[-1] > 1.9 * SAMPLE
    assert first.ran == first.lines == len(lines)


class Hoarder(faulty.Unsplit):
    """Keeps a KiB of each line."""

    partial = list[str]

    def map(self, sale, number):
        return "x" * 1021

    def combine(self, mapped):
        return list(mapped)

    def merge(self, left, right):
        return left + right

    def finish(self, partial):
        yield Line({"lines": len(partial)})


def test_a_partial_that_no_process_may_merge_is_found():
    """At the limit of the finish, and before that the report says how large a job may be."""
    few = measure(Subject.of(Hoarder()), LINES[:40] * 10, Clock())
    assert few.large is None
    assert few.largest_job == pytest.approx(MERGED_MOST / 1024, rel=0.01)
    many = measure(Subject.of(Hoarder()), LINES[:40] * 425, Clock())
    assert "write a `split`" in many.large
    assert many.sizes[-1][1] > MERGED_MOST


def test_measures_tell_how_a_job_grows():
    """By the last two sizes: what comes anew at the end goes on coming."""
    grown = Measured(sizes=[(1_000, 50_000), (2_000, 60_000)])
    assert grown.largest_job == 2_000 + (MERGED_MOST - 60_000) // 10
    assert Measured(sizes=[(1_000, 50_000), (2_000, 50_000)]).largest_job == 10_000_000


class Lined:
    """Makes lines alone."""

    name, transaction, sums = "lined", faulty.Sale, ("amount",)
    calls = 0

    def map(self, sale, number):
        return sale.shop

    def lines(self, sale, number, shop):
        yield Line({"number": number, "shop": shop})


class Unsteady(Lined):
    """Counts its calls, which no run repeats."""

    def lines(self, sale, number, shop):
        Lined.calls += 1
        yield Line({"call": Lined.calls})


class Listing(Lined):
    """Makes lists of one shop."""

    def lines(self, sale, number, shop):
        yield Line([number] if shop == "shop-7" else {"number": number})


def test_a_workload_with_lines_alone_keeps_its_promises():
    """The four parts that it leaves out are tried as nothing."""
    report = check(Lined())
    assert named(report) == [], report


def test_lines_that_differ_between_runs_are_found():
    """The first credited result counts, so another run would be in vain."""
    report = check(Unsteady())
    assert named(report) == ["same"], report
    assert report.findings[0].found == "another run gave other lines of its transactions"


def test_a_wrong_line_is_found_with_its_transaction():
    """By the smallest sample: one line."""
    report = check(Listing())
    assert named(report) == ["runs"], report
    assert report.findings[0].found.startswith("TypeError: a line is no JSON object: [")
    assert [json.loads(line)["shop"] for line in report.findings[0].lines] == ["shop-7"]


def test_a_chunk_that_would_make_too_many_lines_is_found():
    """Its result would be refused, and the chunk parked."""
    each = STREAM_MOST // LARGEST
    assert Measured(ran=100, line_bytes=100 * each).large is None
    assert Measured(ran=100, line_bytes=100 * (each + 1)).large.startswith(
        f"a transaction makes {each + 1:,} bytes of lines"
    )


def limited(rate, **more):
    """Return a workload whose calls have this limit."""
    return type("Limited", (Lined,), {"limits": {"bank": rate}, **more})()


def test_a_report_says_how_long_limits_take():
    """The trials themselves call without them."""
    report = check(limited("100/s"))
    assert named(report) == [], report
    assert "  limit bank: 100/s, so a million transactions take 2.9 hours; the trials called without it" in str(report)


@pytest.mark.parametrize("rate", ["-1/s", "0/s", "1/h", "1601/s", 100])
def test_a_wrong_limit_is_found(rate):
    """As the start of the app says it."""
    report = check(limited(rate))
    assert named(report) == ["usable"]
    assert f"the limit bank is '{rate}', expected 1 to 1600 calls in a second or a minute" in report.findings[0].found


def test_a_wait_of_a_year_is_found():
    """It is a fault of the transaction for which it was said."""

    class Patient(faulty.Shops):
        def map(self, sale, number):
            return Later(365 * 86_400) if sale.amount == 9 else super().map(sale, number)

    (finding,) = check(Patient(), [b'{"shop":"a","amount":"1"}', b'{"shop":"a","amount":"9"}']).findings
    assert "Later was given 31536000, expected seconds as a number from 0 to 86400" in finding.found


def test_limits_with_map_many_are_found():
    """As the start of the app says it."""
    report = check(limited("100/s", map_many=lambda *_: []))
    assert named(report) == ["usable"]
    assert "limits counts calls of map" in report.findings[0].found


def test_a_workload_that_waits_is_checked_with_what_its_service_says():
    """A long wait is no fault of the workload, and the report names the service."""

    class Waiting(faulty.Shops):
        def map(self, sale, number):
            return Later(7200, "bank: 429") if sale.amount == 9 else super().map(sale, number)

    (finding,) = check(Waiting(), [b'{"shop":"a","amount":"1"}', b'{"shop":"a","amount":"9"}']).findings
    assert "bank: 429" in finding.found
