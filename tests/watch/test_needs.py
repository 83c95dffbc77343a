"""Which needs a job has, by its row, and the marks by which a commit sees that one has begun or ended."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.ledger import JobState, Risk, Told
from shared.ledger.job_needs import find_changed, list_marked, mark_needs, needs_of
from shared.watch import Need, NeedKind, name_kind
from shared.watch.needs import sort_needs
from tests.ledger.builders import NOON, at, job

DEADLINE = {"deadline": NOON + timedelta(hours=1), "gate": "nightly"}
PARKED = JobState.COMPLETED_WITH_PARKED
LATE = {**DEADLINE, "warned": Risk.MISSED}

#: Changes of a job in its ordinary way, its kinds of needs, and a word of the sentence.
ROWS = [
    ({}, {}),
    ({"state": JobState.HELD, **DEADLINE}, {}),
    ({"parked_chunks": 2, "done": 1}, {}),
    ({"state": PARKED, "parked_chunks": 2, "done": 1}, {}),
    ({"state": JobState.COMPLETE, "done": 3}, {}),
    ({"state": PARKED, "parked_chunks": 3}, {NeedKind.FAILED: "3 of 3 chunks are parked"}),
    ({"state": JobState.PAUSED, "parked_chunks": 2}, {NeedKind.PAUSED: "2 of 3 chunks are parked"}),
    ({"state": JobState.PAUSED, "problem": "its plan\x1b is gone"}, {NeedKind.PAUSED: "its plan  is gone"}),
    ({"state": JobState.UNBALANCED, "problem": "2 went in"}, {NeedKind.UNBALANCED: "2 went in"}),
    ({"state": JobState.PLANNING, "problem": "it has no plan"}, {NeedKind.PLANLESS: "it has no plan"}),
    (LATE, {NeedKind.LATE: "its deadline has passed, 2026-11-21 13:00 UTC"}),
    (
        {"state": JobState.HELD, **LATE},
        {NeedKind.LATE: "its deadline has passed, 2026-11-21 13:00 UTC, held behind gate nightly"},
    ),
    ({"state": JobState.PAUSED, "problem": "x", **LATE}, {NeedKind.PAUSED: "x", NeedKind.LATE: None}),
    ({"state": JobState.COMPLETE, **LATE}, {}),
    ({"revision": 2, **LATE}, {}),
    ({"state": JobState.BURIED, **LATE}, {}),
]


@pytest.mark.parametrize(("changes", "kinds"), ROWS)
def test_a_job_has_the_needs_of_its_row(changes, kinds):
    """A job on its ordinary way has none."""
    found = needs_of(job(**changes), NOON)
    assert set(found) == set(kinds)
    for kind, words in kinds.items():
        need = found[kind]
        assert (need.kind, need.about, need.at) == (kind, "nightly", NOON)
        assert need.found == (words or need.found)


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("problem", [None, "x"])
@pytest.mark.parametrize("warned", [None, *Risk])
@pytest.mark.parametrize("parked", [0, 3])
def test_no_need_is_overlooked_because_a_job_seems_ordinary(state, problem, warned, parked):
    """The quick check of a commit lets each need through. An unbalanced job has its problem."""
    row = job(state=state, problem=problem, warned=warned, parked_chunks=parked, **DEADLINE)
    if state is not JobState.UNBALANCED:
        assert row.may_need_a_person or not needs_of(row, NOON)


def test_a_danger_that_only_waits_is_a_notice():
    """Nothing is lost yet."""
    waits = needs_of(job(warned=Risk.WAITS_TOO_LONG, **DEADLINE), NOON)[NeedKind.LATE]
    late = needs_of(job(warned=Risk.PREDICTED_LATE, **DEADLINE), NOON)[NeedKind.LATE]
    assert (waits.is_grave, late.is_grave) == (False, True)


def test_a_need_stands_since_the_state_came_or_the_deadline_passed():
    """By the job's story, which a repeated write does not change."""
    story = (Told(JobState.RUNNING, NOON, 1), Told(JobState.PAUSED, at(7), 1))
    found = needs_of(job(state=JobState.PAUSED, problem="x", story=story, **LATE), at(99))
    assert (found[NeedKind.PAUSED].since, found[NeedKind.LATE].since) == (at(7), DEADLINE["deadline"])


def test_marks_say_which_kinds_stand_and_which_stood():
    """A kind that ends stays marked, because its row may still be there. Another degree is a change too."""
    waits = replace(job(warned=Risk.WAITS_TOO_LONG, **DEADLINE))
    assert mark_needs(job()) is None
    first = mark_needs(waits)
    both = mark_needs(replace(waits, needs=first, warned=Risk.MISSED, state=JobState.PAUSED, problem="x"))
    ended = mark_needs(replace(waits, needs=both, state=JobState.COMPLETE))
    again = mark_needs(replace(waits, needs=ended, state=JobState.PAUSED, problem="x", revision=2))
    assert (first, both, ended) == ("z-late:waits_too_long", "x-paused z-late:missed", "-x-paused -z-late")
    assert again == "-z-late x-paused"
    changed = [
        find_changed(*two) for two in ((None, first), (first, both), (both, both), (both, ended), (ended, again))
    ]
    assert changed == [["z-late"], ["x-paused", "z-late"], [], ["x-paused", "z-late"], ["x-paused"]]
    assert list_marked(ended) == ["x-paused", "z-late"]


def test_a_mark_of_a_later_version_is_left_to_it():
    """It neither ends it nor loses it."""
    known = mark_needs(job(needs="x-unfed:3", state=JobState.PAUSED, problem="x"))
    assert known == "x-paused x-unfed:3"
    assert list_marked(known) == ["x-paused"]
    assert find_changed("x-unfed:3", known) == ["x-paused"]


def test_grave_needs_come_first_then_those_of_the_installation_and_late_ones_last():
    """By their keys."""
    kinds = [NeedKind.LATE, "a-order-stuck", NeedKind.PAUSED, NeedKind.FAILED]
    needs = [Need(kind, "n", "", NOON) for kind in kinds] + [Need("a-replay-stopped", "n", "", NOON, is_grave=False)]
    words = ["order stuck", "job failed", "job paused", "job late", "replay stopped"]
    assert [need.words for need in sort_needs(needs)] == words
    assert [need.is_of_job for need in sort_needs(needs)] == [False, True, True, True, False]
    assert all(Need(kind, "n", "", NOON).remedy for kind in NeedKind)
    assert name_kind("unknown") == "unknown"
