"""The story of a job: the states that it came to, in the write that changed them."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

from shared.gate.state import Reading
from shared.ledger import JobState, TableLedger, Told, change, resume
from shared.ledger.entities import job_entity, job_of
from shared.ledger.job_decisions import note_gate_passed, pause
from shared.ledger.table_ledger import FIRST_TOLD, LAST_TOLD, LONGEST_NOTE, stamp
from tests.ledger.builders import NOON, at, job


def states(found):
    """Return the states of a story."""
    return [one.state for one in found.story]


def test_each_state_is_told_once_with_its_time_and_its_reason():
    """A write that changes no state adds nothing."""
    new = stamp(job(state=JobState.PLANNING, gate="nightly", dispatch_cursor=0), "a", NOON)
    held = stamp(note_gate_passed(replace(new, etag="1"), Reading(is_open=False, epoch=7)), "b", at(1))
    same = stamp(replace(held, etag="2", milliseconds=5), "c", at(2))
    passed = note_gate_passed(replace(same, etag="3"), Reading(is_open=True, epoch=8))
    paused = stamp(pause(passed, "sluice", "its plan is gone"), "d", at(3))
    assert paused.story == (
        Told(JobState.PLANNING, NOON, 1),
        Told(JobState.HELD, at(1), 1, "gate nightly, epoch 7"),
        Told(JobState.PAUSED, at(3), 1, "its plan is gone"),
    )


def test_a_row_of_an_earlier_version_gets_no_story():
    """Its past is not known, and a story that begins in the middle would say otherwise."""
    old = job(etag="1")
    assert stamp(replace(old, state=JobState.FINISHING), "n", NOON).story == ()


def test_a_story_keeps_its_beginning_and_its_end():
    """A job that is replayed ever again does not outgrow its row, whatever its notes say."""
    told, told_in_all = replace(stamp(job(), "n", NOON), etag="1"), 200
    for number in range(told_in_all):
        revised = replace(told, revision=number + 2, state=JobState.PAUSED, problem='\x00🎉"' * 2_000)
        told = stamp(revised, "n", at(number + 1))
    assert [one.revision for one in told.story[:FIRST_TOLD]] == list(range(1, FIRST_TOLD + 1))
    assert [one.revision for one in told.story[FIRST_TOLD:]][-1] == told_in_all + 1
    assert len(told.story) == FIRST_TOLD + LAST_TOLD
    assert all(len(one.note) <= LONGEST_NOTE and one.note.replace(" ", "x").isprintable() for one in told.story)
    # A reader sees that there is more of it: the job itself holds the whole problem.
    assert all(one.note.endswith("…") for one in told.story[1:])
    row = job_entity(told)
    assert job_of(row, "").story == told.story


def test_the_write_that_changes_the_state_tells_it(tables, table_ledger):
    """In the row itself: no request more, and a reader sees both or none."""
    now = SimpleNamespace(now=lambda: NOON)
    ledger = TableLedger(table_ledger._jobs, table_ledger.list._index, clock=now)
    ledger.insert(job(state=JobState.PAUSED, problem="2 of 3 chunks are parked"))
    now.now = lambda: at(5)
    change(ledger, "nightly", lambda found: resume(found, NOON + timedelta(seconds=5)), tried="resume it")
    found = ledger.read("nightly")
    assert states(found) == [JobState.PAUSED, JobState.RUNNING]
    assert found.story[0].note == "2 of 3 chunks are parked"
    assert [one.at for one in found.story] == [NOON, at(5)]
