"""The checker of a night finds each kind of breach; one that finds none would prove nothing."""

import copy
import gzip
import random

import pytest
import zstandard

from tests.night import checker
from tests.night.__main__ import accumulated
from tests.night.returns import Carriers
from tests.night.sight import alerts_of

SENT = [
    {"id": "j/0", "account": "a", "units": "1.5", "do": ""},
    {"id": "j/1", "account": "b", "units": "2", "do": "reject"},
    {"id": "j/2", "account": "a", "units": "3.25", "do": "raise"},
]
COUNTS = {"accepted": {"items": 2}, "rejected": {"items": 1}, "parked": {"items": 0}}
MANIFEST = {"state": "complete", "revision": 2, **COUNTS}
PARTS = {
    "lines": [{"id": "j/0"}, {"id": "j/2"}],
    "rejected": [{"line": '{"id": "j/1"}'}],
    "output": [{"account": "a", "units": "4.75"}],
}
TOTALS = [{"account": "a", "units": "4.75", "revision": 2}, {"account": "a", "units": "1.5", "revision": 1}]


def judged(spoil):
    """Return the breaches of a job after something was spoilt."""
    found, totals = copy.deepcopy((MANIFEST, PARTS)), copy.deepcopy(TOTALS)
    spoil(found[0], found[1], totals)
    return list(checker.complete("j", SENT, found, totals))


def test_a_job_that_is_right_has_no_breach():
    """Totals of an older revision count for nothing."""
    assert judged(lambda *_: None) == []


SPOILS = {
    "no line": lambda manifest, parts, totals: parts["lines"].pop(),
    "a line twice": lambda manifest, parts, totals: parts["lines"].append({"id": "j/0"}),
    "a line of a stranger": lambda manifest, parts, totals: parts["lines"].append({"id": "k/0"}),
    "a line of one that is rejected": lambda manifest, parts, totals: parts["lines"].append({"id": "j/1"}),
    "rejected twice": lambda manifest, parts, totals: parts["rejected"].append({"line": '{"id": "j/1"}'}),
    "another sum": lambda manifest, parts, totals: parts["output"][0].update(units="4.76"),
    "an account twice": lambda manifest, parts, totals: parts["output"].append(parts["output"][0]),
    "another total": lambda manifest, parts, totals: totals[0].update(units="1.5"),
    "no total": lambda manifest, parts, totals: totals.pop(0),
    "another state": lambda manifest, parts, totals: manifest.update(state="completed_with_parked"),
    "another count": lambda manifest, parts, totals: manifest["accepted"].update(items=3),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_each_kind_of_wrong_job_is_found(spoil):
    """One thing is spoilt, and it is said."""
    assert judged(spoil)


def test_a_job_without_outputs_is_found():
    """It may never have ended."""
    assert list(checker.complete("j", SENT, None, [])) == ["j: it has no outputs"]


def test_a_stopped_job_names_every_transaction_and_publishes_nothing():
    """One that is missing in the numbers, outputs of its revision, another state."""
    shown = {"state": "stopped", "revision": 1, "accepted": 1, "rejected": 0, "parked": 0, "not_run": 2}
    assert list(checker.stopped("j", SENT, None, shown)) == []
    assert list(checker.stopped("j", SENT, None, shown | {"not_run": 1}))
    assert list(checker.stopped("j", SENT, None, shown | {"state": "running"}))
    assert list(checker.stopped("j", SENT, ({"revision": 1}, {}), shown))


def test_a_chunk_that_begins_while_its_job_is_halted_is_found():
    """What began before, soon after or behind the resume is none."""
    assert list(checker.quiet("j", [99.0, 111.9, 131.0], [(100.0, 130.0)])) == []
    assert list(checker.quiet("j", [112.1], [(100.0, 130.0)]))
    assert list(checker.quiet("j", [500.0], [(100.0, float("inf"))]))


def test_a_chunk_before_its_gate_is_found():
    """To the millisecond."""
    assert list(checker.early("j", [10.0], 10.0)) == []
    assert list(checker.early("j", [9.999], 10.0))


def test_too_many_calls_are_found():
    """In any stretch of five seconds."""
    calm = [(number / 10, "j/0", 200) for number in range(1000)]
    assert list(checker.limited(calm, 10)) == []
    assert list(checker.limited([*calm, *((50 + number / 1000, "j/0", 200) for number in range(9))], 10))


def test_one_that_was_never_charged_is_found():
    """A refused call is no charge."""
    calls = [(0.0, "j/0", 200), (0.0, "j/1", 200), (0.0, "j/2", 429)]
    assert list(checker.charged(SENT, calls))
    assert list(checker.charged(SENT, [*calls, (1.0, "j/2", 200)])) == []


def order(name, number, state, whole):
    """Return an order as its customer reads it."""
    return {"order": name, "number": number, "state": state, "reserved": {"whole": whole}}


def test_wrong_seats_are_found():
    """Oversold, lost, paid in vain, without an answer, a number twice."""
    orders = [order("o-1", 1, "confirmed", 2), order("o-2", 2, "reserved", 1), order("o-3", 3, "rejected", 0)]
    offer = {"seats": {"whole": {"quota": 5, "remaining": 2}}}
    assert list(checker.seats(orders, offer, ["o-1"])) == []
    assert list(checker.seats(orders, {"seats": {"whole": {"quota": 5, "remaining": 3}}}, []))
    assert list(checker.seats(orders, {"seats": {"whole": {"quota": 2, "remaining": -1}}}, []))
    assert list(checker.seats(orders, offer, ["o-2"]))
    assert list(checker.seats([*orders, order("o-4", 4, "placed", 0)], offer, []))
    assert list(checker.seats([*orders, order("o-4", 3, "rejected", 0)], offer, []))


def test_what_lies_around_is_found():
    """A message, and a pointer that nothing followed."""
    assert list(checker.left_over({}, [])) == []
    assert len(list(checker.left_over({"submissions": 1}, [("job", "j")]))) == 2


def test_a_chunk_before_its_predecessor_is_found():
    """To the millisecond."""
    assert list(checker.after("j", [10.0], 10.0)) == []
    assert list(checker.after("j", [9.999], 10.0))


def test_a_pause_that_no_need_names_in_time_is_found():
    """None, one that comes late; seconds in which nothing could be seen do not count."""
    named = {("x-paused", "j"): 150.0}
    assert list(checker.alarmed({"j": 100.0}, named, [])) == []
    assert list(checker.alarmed({"j": 100.0}, {}, []))
    assert list(checker.alarmed({"j": 80.0}, named, []))
    assert list(checker.alarmed({"j": 80.0}, named, [(100.0, 120.0)])) == []


def test_a_false_need_is_found():
    """Of a job that was not paused, and of another kind; those of the tick are judged by its alerts."""
    assert list(checker.alarmed({}, {("x-paused", "j"): 1.0}, []))
    assert list(checker.alarmed({}, {("x-paused", "j"): 1.0}, [], {("x-paused", "j")})) == []
    assert list(checker.alarmed({"j": 1.0}, {("x-paused", "j"): 1.0, ("x-failed", "j"): 1.0}, []))
    assert list(checker.alarmed({}, {("b-tick-fails", "the tick"): 1.0}, [])) == []


def test_an_alert_that_nothing_explains_is_found():
    """Of another job, of another event, long after the harm or before it."""
    expected, parked = {"sluice.message.parked": {"j"}}, "sluice.message.parked"
    assert list(checker.unexplained([(1.0, parked, {"job": "j"})], expected, [])) == []
    assert list(checker.unexplained([(1.0, parked, {"job": "k"})], expected, [1.0]))
    assert list(checker.unexplained([(1.0, "sluice.result.differs", {"job": "j"})], expected, [1.0]))
    failed = [(200.0, "sluice.tick.failed", {})]
    assert list(checker.unexplained(failed, expected, [100.0])) == []
    assert list(checker.unexplained(failed, expected, [10.0, 230.0]))


PAGE = """
| `sluice.job.paused` | it waits | every one | look |
| `sluice.outbox.late` | it sends it | `todouble(fields.late_seconds) >= 600` | look |
"""
LOG = """
2026-11-28T13:00:00.466Z http-0/10241 WARNING sluice.job.paused {"job":"j"}
2026-11-28T13:00:01.466Z http-0/10241 INFO    sluice.job.accepted {"job":"j"}
2026-11-28T13:00:02.466Z http-0/10241 INFO    sluice.outbox.late {"job":"j","late_seconds":599}
2026-11-28T13:00:03.466Z http-0/10241 INFO    sluice.outbox.late {"job":"k","late_seconds":600}
"""


def test_alerts_are_read_from_the_logs_by_the_page_that_lists_them():
    """An event that is none, and one below its bound, are left out."""
    found = alerts_of(PAGE, [LOG])
    assert [(event, fields["job"]) for _, event, fields in found] == [
        ("sluice.job.paused", "j"),
        ("sluice.outbox.late", "k"),
    ]
    assert found[1][0] - found[0][0] == 3


def test_sums_prove_a_job_without_lines():
    """It has none, and a sum that is wrong is found."""
    parts = {**copy.deepcopy(PARTS), "lines": []}
    assert list(checker.complete("j", SENT, (MANIFEST, parts), TOTALS, has_lines=False)) == []
    parts["output"][0]["units"] = "4.76"
    assert list(checker.complete("j", SENT, (MANIFEST, parts), TOTALS, has_lines=False))


def test_a_night_with_the_last_release_in_which_it_did_nothing_is_found():
    """It proves nothing of the two side by side."""
    assert list(checker.shared_work({"0.4.0": 3, "0.5.0": 9}, "0.4.0")) == []
    assert list(checker.shared_work({"0.5.0": 9}, "0.4.0"))


def test_a_night_stands_beside_those_before():
    """In place of its own seed; the hours and the breaches of all are there."""
    first = accumulated("", {"seed": "2", "took": "1800 s", "breaches": "1"}, ["it is wrong"], "Here.")
    both = accumulated(first, {"seed": "1", "took": "1800 s", "breaches": "0"}, [], "Here.")
    assert [line for line in both.splitlines() if line.startswith("| ")][2:] == [
        "| 1 | 1800 s | 0 |",
        "| 2 | 1800 s | 1 |",
    ]
    assert ("2 nights, 1.0 hours in all. Here." in both, "- night 2: it is wrong" in both) == (True, True)
    again = accumulated(both, {"seed": "2", "took": "900 s", "breaches": "0"}, [], "Here.")
    assert ("2 nights, 0.8 hours" in again, "wrong" in again) == (True, False)
    assert "1 nights" in accumulated(both, {"seed": "3", "took": "9 s"}, [], "Here.")


def test_a_mark_that_is_left_is_found_also_where_it_is_packed():
    """By gzip, by zstd, or as it was."""
    packed = (b"m4rk3d", gzip.compress(b"m4rk3d"), zstandard.ZstdCompressor().compress(b"m4rk3d"))
    for stored in packed:
        assert list(checker.marked("j", b"m4rk3d", [("here", stored)]))
    assert list(checker.marked("j", b"m4rk3d", [("here", b"m4rk")])) == []


def heard(**returns):
    """Return what the carriers and the shop of these returns know: their ends, and how often each carrier was asked."""
    carriers = Carriers("", random.Random(1))
    for name, (ends, *asked) in returns.items():
        carriers.sent.add(name)
        carriers.heard |= {(name, version): {"carrier_asked"} for version in range(1, 3)}
        carriers.heard |= {(name, version): {end} for version, end in enumerate(ends, 3)}
        carriers.asked.update({(name, number): times for number, times in enumerate(asked, 1)})
    return carriers


def test_each_return_ends_once():
    """Without an end, with two, with other events, beside a carrier that was never asked: each is found."""
    good = heard(r1=(["fetched"], 2, 0), r2=(["fetched"], 1, 1), r3=(["given_up"], 1, 2))
    good.lost.add("r2")
    assert list(checker.returned(good, [], are_heard=True)) == []
    assert list(checker.returned(good, ["r1 waits until 12:00"], are_heard=True))
    for wrong in (heard(r1=([], 1)), heard(r1=(["fetched", "given_up"], 1)), heard(r1=(["fetched"], 0, 1))):
        assert list(checker.returned(wrong, [], are_heard=True))
    good.heard["r1", 3].add("given_up")
    assert list(checker.returned(good, [], are_heard=True))
    silent = heard(r1=(["fetched"], 1, 0))
    silent.lost.add("r1")
    assert list(checker.returned(silent, [], are_heard=True))


def test_what_the_bus_lost_is_not_heard():
    """The list of the command shows that nothing waits."""
    assert list(checker.returned(heard(r1=([], 1)), [], are_heard=False)) == []
