"""What happens to a job outside of settling, and what may not."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from shared.errors import JobStateError
from shared.gate.state import Reading
from shared.grammar import amounts
from shared.ledger import Job, JobState, Listed, PlanBlob, Portion, Totals
from shared.ledger.job_decisions import (
    Balance,
    Collision,
    advance_cursor,
    bury,
    check_balance,
    describe_state,
    finish,
    is_halted,
    is_overdue,
    judge,
    list_open,
    may_dispatch,
    may_feed,
    next_look,
    next_warning,
    note_gate_passed,
    note_lost,
    note_missing_plan,
    note_put_again,
    note_warning,
    pause,
    read_progress,
    record_plan,
    resume,
    stop,
)
from shared.ledger.records import CLOSED as CLOSED_STATES, Risk
from tests.ledger.builders import AMOUNT, ITEMS, NOON, at, job

PLAN = PlanBlob("nightly/plan", '"0x1"')
HOUR = timedelta(hours=1)


def fresh(**changes):
    """Return a job that was just accepted."""
    return replace(Job(job="nightly", content_hash="c0ffee", workload="billing", accepted_at=NOON), **changes)


def ended(**changes):
    """Return a job of three done chunks that waits to be finished."""
    totals = Totals(accepted=Portion(3 * ITEMS, amounts({"amount": str(3 * AMOUNT)})))
    return job(**{"state": JobState.FINISHING, "done": 3, "totals": totals} | changes)


def test_the_same_content_is_a_duplicate():
    """Dropping a submission twice runs it once."""
    assert judge(job(), "c0ffee").collision is Collision.DUPLICATE


def test_other_content_is_a_conflict_that_names_both():
    """Two contents under one id are never merged, and the publisher reads which is which."""
    judged = judge(job(), "deadbeef")
    assert judged.collision is Collision.CONFLICT
    assert "c0ffee" in judged.reason
    assert "deadbeef" in judged.reason


def test_the_plan_that_was_recorded_first_stays():
    """Of two accepts the slower one takes over the plan and the ids of the faster one."""
    first = record_plan(fresh(), PLAN, chunks=3, items=30, id_base=1000)
    assert (first.chunks, first.items, first.id_base) == (3, 30, 1000)
    assert record_plan(first, PlanBlob("other", "x"), chunks=9, items=9, id_base=2000) == first


def test_a_job_without_a_plan_says_so_until_it_has_one():
    """Nobody but its publisher can help it, and nothing is wrong with it any more once the submission came again."""
    waiting = note_missing_plan(fresh())
    assert "send its submission again" in waiting.problem
    assert note_missing_plan(waiting) is waiting
    helped = record_plan(waiting, PLAN, chunks=3, items=30, id_base=1000)
    assert helped.problem is None
    assert note_missing_plan(helped) is helped


CLOSED, OPEN = Reading(4, is_open=False), Reading(4, is_open=True)


def gated(**changes):
    """Return a planned job that has not met its gate."""
    return fresh(plan=PLAN, chunks=3, gate="nightly", **changes)


def test_a_job_meets_its_gate_only_with_a_plan():
    """Everything that can be done before a release is done before it."""
    with pytest.raises(JobStateError, match="has no plan"):
        note_gate_passed(fresh(gate="nightly"), OPEN)


def test_a_closed_gate_holds_a_job_until_any_opening_since():
    """The first epoch that it met stays; the note that it may start comes with a later one, also of a closed gate."""
    waiting = note_gate_passed(gated(), CLOSED)
    assert (waiting.state, waiting.held_epoch, waiting.passed_epoch) == (JobState.HELD, 4, None)
    assert note_gate_passed(waiting, CLOSED) is waiting
    assert note_gate_passed(waiting, Reading(3, is_open=False)) is waiting
    for later in (Reading(5, is_open=False), Reading(1, is_open=True)):
        released = note_gate_passed(waiting, later)
        assert (released.held_epoch, released.passed_epoch) == (4, later.epoch)
        assert note_gate_passed(released, CLOSED) is released
        assert may_dispatch(released)
    assert not may_dispatch(waiting)


def test_a_job_that_met_an_open_gate_may_start_whatever_closes_afterwards():
    """The note stays; one without a gate needs none, and one that has started has none from before there were notes."""
    passed = note_gate_passed(gated(), OPEN)
    assert (passed.state, may_dispatch(passed)) == (JobState.PLANNING, True)
    assert note_gate_passed(passed, CLOSED) is passed
    free = fresh(plan=PLAN, chunks=3)
    assert note_gate_passed(free, CLOSED) is free
    assert may_dispatch(free)
    assert may_dispatch(gated(state=JobState.DISPATCHING, dispatch_cursor=1))


def test_no_dispatch_is_noted_of_a_job_that_may_not_start():
    """Whoever would put its chunks all the same cannot write that it did."""
    with pytest.raises(JobStateError, match="has not passed its gate"):
        advance_cursor(note_gate_passed(gated(), CLOSED), 1, at(1))


def test_the_dispatch_cursor_only_moves_forward():
    """A slower dispatcher takes nothing back, and the last chunk makes the job run."""
    first = advance_cursor(note_gate_passed(gated(), OPEN), 1, at(1))
    assert (first.state, first.dispatch_cursor, first.started_at) == (JobState.DISPATCHING, 1, at(1))
    assert advance_cursor(first, 1, at(5)) == first
    last = advance_cursor(first, 3, at(9))
    assert (last.state, last.dispatch_cursor, last.started_at) == (JobState.RUNNING, 3, at(1))
    assert advance_cursor(last, 2, at(10)) == last
    assert not may_dispatch(last)


def test_a_paused_job_is_not_dispatched_and_stays_paused():
    """A dispatcher that is under way when a job pauses notes its cursor and stops."""
    paused = job(chunks=9, state=JobState.PAUSED, dispatch_cursor=3)
    assert not may_dispatch(paused)
    assert advance_cursor(paused, 6, at(1)).state is JobState.PAUSED


def test_an_empty_job_finishes_at_its_dispatch():
    """Without chunks there is no last result to finish it."""
    assert advance_cursor(fresh(plan=PLAN, chunks=0), 0, at(1)).state is JobState.FINISHING


def test_a_job_without_a_plan_cannot_be_dispatched():
    """The error says what to do."""
    assert not may_dispatch(fresh())
    with pytest.raises(JobStateError, match="let accept run again"):
        advance_cursor(fresh(), 1, at(1))


def test_a_resumed_job_goes_on_where_it_was():
    """What is parked is forgiven, and outstanding chunks are dispatched."""
    paused = job(chunks=9, state=JobState.PAUSED, dispatch_cursor=3, parked_chunks=3, by="ann")
    assert resume(paused, at(1)).state is JobState.DISPATCHING
    assert (resume(paused, at(1)).forgiven, resume(paused, at(1)).by) == (3, None)
    assert resume(replace(paused, dispatch_cursor=9), at(1)).state is JobState.RUNNING
    assert resume(job(), at(1)) == job()


def test_a_job_whose_outputs_could_not_be_made_resumes_as_a_new_revision():
    """Nothing of the failed attempt is taken over."""
    stopped = pause(ended(), "sluice", "the workload failed")
    assert (stopped.state, stopped.problem) == (JobState.PAUSED, "the workload failed")
    again = resume(stopped, at(1))
    assert (again.state, again.revision, again.problem) == (JobState.FINISHING, 2, None)


def test_who_put_messages_that_are_dropped_notes_nothing():
    """The chunks of a slow dispatcher are not on the queues any more, and a resume puts those below the cursor again."""
    paused = pause(job(chunks=9, state=JobState.DISPATCHING, dispatch_cursor=3), "ann", "why")
    resumed = resume(paused, at(1))
    assert (paused.halts, resumed.halts, resumed.again_from, resumed.state) == (1, 1, 0, JobState.DISPATCHING)
    for found in (paused, resumed):
        assert advance_cursor(found, 6, at(2), halts=0) is found
        assert note_put_again(found, at(2), at(2), halts=0) is found
    assert advance_cursor(resumed, 6, at(2), halts=1).dispatch_cursor == 6
    assert note_put_again(resumed, at(2), at(2), began=0, halts=1).again_from is None
    assert list_open(paused, set()) == []


def test_a_job_whose_chunks_have_all_ended_has_no_messages_to_take_out():
    """So nothing is put again either."""
    paused = pause(ended(), "ann", "why")
    assert (paused.halts, is_halted(paused), resume(paused, at(1)).again_from) == (0, False, None)


def test_a_resumed_job_does_not_jump_its_gate():
    """It waits behind it by the epoch that it met, also one without a chunk. One that has started goes on."""
    held = note_gate_passed(gated(), CLOSED)
    for found in (held, replace(held, chunks=0, items=0)):
        back = resume(pause(found, "ann", "why"), at(1))
        assert (back.state, back.held_epoch, may_dispatch(back)) == (JobState.HELD, held.held_epoch, False)
        assert may_dispatch(note_gate_passed(back, Reading(6, is_open=False)))
    passed = note_gate_passed(gated(), OPEN)
    assert resume(pause(passed, "ann", "why"), at(1)).state is JobState.DISPATCHING


def test_an_open_job_is_stopped_once():
    """Also one without a plan, and one that is finishing. Nothing is noted in its row any more."""
    for state in JobState:
        found = job(state=state, dispatch_cursor=1, again_from=0)
        stopped = stop(found, "ann", "wrong file", at(5))
        if state in CLOSED_STATES:
            assert stopped is found
            continue
        assert (stopped.state, stopped.by, stopped.problem, stopped.finished_at) == (
            JobState.STOPPED,
            "ann",
            "wrong file",
            at(5),
        )
        assert (stopped.again_from, is_halted(stopped), may_feed(stopped)) == (None, True, False)
        assert advance_cursor(stopped, 2, at(6)) is stopped
        assert resume(stopped, at(6)) is stopped
        assert stop(stopped, "bob", "later", at(7)) is stopped
    assert bury(stop(job(), "ann", "wrong file", at(5))).state is JobState.BURIED


def test_an_open_job_with_a_plan_pauses_once():
    """The first reason stays, and one that is closed has nothing to pause."""
    for state in JobState:
        found = job(state=state, plan=PLAN)
        is_open = state not in CLOSED_STATES | {JobState.PAUSED}
        paused = pause(found, "ann", "wrong tariff")
        assert (paused.state, paused.by, paused.problem) == (
            (JobState.PAUSED, "ann", "wrong tariff") if is_open else (state, None, None)
        )
        assert pause(paused, "bob", "later") == paused
    assert pause(fresh(), "ann", "wrong tariff") == fresh()


def test_a_finisher_of_an_older_revision_decides_nothing():
    """A stale finisher never ends a job that a replay has moved on."""
    newer = ended(revision=2)
    assert finish(newer, 1, Balance(JobState.COMPLETE), at(1)) == newer
    done = finish(newer, 2, Balance(JobState.COMPLETE), at(1))
    assert (done.state, done.finished_at) == (JobState.COMPLETE, at(1))


def test_only_a_finished_job_is_buried():
    """What is open is never forgotten; id and content hash outlive the rest."""
    with pytest.raises(JobStateError, match="is running"):
        bury(job())
    kept = bury(job(state=JobState.COMPLETE, etag="e"))
    assert (kept.state, kept.content_hash, kept.plan, kept.etag) == (JobState.BURIED, "c0ffee", job().plan, "e")
    assert bury(kept) == kept


def test_a_job_that_adds_up_is_complete():
    """Items and every declared sum are proven before a job is called complete."""
    assert check_balance(ended()) == Balance(JobState.COMPLETE)


def test_a_job_with_parked_chunks_says_so():
    """What is parked is part of the proof."""
    part = amounts({"amount": str(AMOUNT)})
    totals = Totals(Portion(ITEMS, part), Portion(ITEMS, part), Portion(ITEMS, part))
    found = check_balance(ended(done=2, parked_chunks=1, totals=totals))
    assert found == Balance(JobState.COMPLETED_WITH_PARKED)


@pytest.mark.parametrize(
    ("totals", "words"),
    [
        (Totals(Portion(29, amounts({"amount": "37.02"}))), "30 items went in, 29 came out"),
        (Totals(Portion(30, amounts({"amount": "37.03"}))), "'amount' was declared as 37.02, found 37.03"),
        (Totals(Portion(30)), "found 0"),
    ],
)
def test_a_job_that_does_not_add_up_is_unbalanced(totals, words):
    """One item or one cent is enough, and the numbers are named."""
    found = check_balance(ended(totals=totals))
    assert found.state is JobState.UNBALANCED
    assert words in (found.problem or "")


def test_unknown_sums_are_unproven_and_items_must_still_balance():
    """Nobody can add up what cannot be read, but everybody can count it."""
    totals = Totals(accepted=Portion(2 * ITEMS), parked=Portion(ITEMS, unknown=1))
    found = check_balance(ended(done=2, parked_chunks=1, totals=totals))
    assert (found.state, found.unproven) == (JobState.COMPLETED_WITH_PARKED, ("amount",))
    missing = Totals(accepted=Portion(ITEMS), parked=Portion(ITEMS, unknown=1))
    assert check_balance(ended(done=2, parked_chunks=1, totals=missing)).state is JobState.UNBALANCED


def test_totals_that_are_not_those_of_the_rows_are_unbalanced():
    """The ledger proves itself: the job's totals are the sum of its rows."""
    assert check_balance(ended(), ended().totals).state is JobState.COMPLETE
    assert check_balance(ended(), Totals()).state is JobState.UNBALANCED


def test_a_job_is_overdue_after_silence_only():
    """Progress of any chunk, or putting them again, starts the wait anew."""
    running = job(chunks=4, dispatch_cursor=3, progressed_at=at(10))
    assert is_overdue(running, at(10) + HOUR, HOUR)
    assert not is_overdue(running, at(9) + HOUR, HOUR)
    assert not is_overdue(note_put_again(running, at(20), None), at(10) + HOUR, HOUR)


def test_open_chunks_are_those_that_were_put_and_have_not_ended():
    """A repetition that stopped continues at its place; a job that has ended has none."""
    running = job(chunks=9, dispatch_cursor=5)
    assert list_open(running, {1}) == [0, 2, 3, 4]
    assert list_open(replace(running, again_from=3), {1}) == [3, 4]
    assert list_open(ended(), set()) == []


def test_the_row_knows_when_its_last_chunk_was_put():
    """The latest moment stays: batches end in any order, and a row of an earlier version has none."""
    begun = advance_cursor(fresh(plan=PLAN, chunks=9), 2, at(1), at(5))
    assert begun.put_until == at(5)
    assert advance_cursor(begun, 4, at(2), at(4)).put_until == at(5)
    assert advance_cursor(begun, 4, at(2), at(6)).put_until == at(6)
    assert advance_cursor(begun, 4, at(2)).put_until == at(5)


def test_of_two_repetitions_the_place_of_the_faster_one_stays():
    """Whoever began from an older place notes when it put, and nothing else; the same note twice changes nothing."""
    running = job(chunks=9, dispatch_cursor=9)
    first = note_put_again(running, at(1), at(1), began=None, left=4)
    assert (first.again_from, first.put_until, first.nudged_at) == (4, at(1), at(1))
    assert note_put_again(first, at(1), at(1), began=None, left=4) == first
    slower = note_put_again(first, at(2), at(2), began=None, left=2)
    assert (slower.again_from, slower.put_until) == (4, at(2))
    assert note_put_again(first, at(3), at(3), began=4, left=None).again_from is None
    ended = replace(first, state=JobState.FINISHING)
    assert note_put_again(ended, at(3), None, began=2, left=7).again_from is None


def test_lost_chunks_wait_for_their_turn_in_a_job_under_way_alone():
    """A place that is noted stays, and the note is no nudge: without a ready row the job must stay silent."""
    under_way = {JobState.DISPATCHING, JobState.RUNNING}
    for state in JobState:
        put = job(state=state, chunks=9, dispatch_cursor=9, plan=PLAN)
        lost = note_lost(put, 3)
        assert (lost.again_from, lost.nudged_at) == (3 if state in under_way else None, None)
        assert may_feed(lost) == (state in under_way or may_dispatch(put))
        assert note_lost(lost, 2) == lost


@pytest.mark.parametrize("state", [JobState.HELD, JobState.PAUSED, JobState.COMPLETE, JobState.BURIED])
def test_nobody_waits_for_a_job_that_does_not_move_by_itself(state):
    """What waits for a gate or a person, or has ended, is never overdue."""
    assert not is_overdue(job(state=state), at(0) + 100 * HOUR, HOUR)


def test_a_job_stuck_in_planning_or_finishing_is_overdue():
    """Every state that something should move on is watched."""
    assert is_overdue(fresh(), at(0) + HOUR, HOUR)
    assert is_overdue(ended(), at(0) + HOUR, HOUR)
    assert list_open(ended(), {0, 1, 2}) == []


def test_the_end_is_predicted_from_the_rate_so_far():
    """A third in ten minutes makes twenty more."""
    third = job(chunks=9, done=2, parked_chunks=1, started_at=at(0))
    seen = read_progress(third, at(600))
    assert (seen.ended, seen.chunks, seen.predicted) == (3, 9, at(1800))
    assert read_progress(job(), at(600)).predicted is None


def test_a_deadline_warns_before_it_is_missed():
    """Late is what will be late at the rate so far, not only what is."""
    third = job(chunks=9, done=3, started_at=at(0), deadline=at(1700))
    assert read_progress(third, at(600)).is_late
    assert not read_progress(replace(third, deadline=at(1900)), at(600)).is_late
    assert read_progress(job(deadline=at(10)), at(11)).is_late
    assert not read_progress(job(deadline=at(10), finished_at=at(9), state=JobState.COMPLETE), at(99)).is_late


def test_a_job_that_waits_while_its_time_runs_out_is_at_risk():
    """Nothing can be predicted of it, so it warns when a quarter of its time is left; a replay has no deadline."""
    waiting = job(accepted_at=at(0), state=JobState.HELD, gate="nightly", deadline=at(1000), started_at=None)
    assert read_progress(waiting, at(750)).risk is None
    assert read_progress(waiting, at(751)).risk is Risk.WAITS_TOO_LONG
    assert read_progress(waiting, at(1001)).risk is Risk.MISSED
    assert read_progress(replace(waiting, revision=2), at(1001)).risk is None
    assert read_progress(replace(waiting, deadline=None), at(1001)).risk is None
    late = replace(waiting, state=JobState.COMPLETE, finished_at=at(1001))
    assert read_progress(late, at(9999)).risk is Risk.MISSED


def test_a_held_job_is_looked_at_when_its_risk_grows_and_never_else():
    """Just after three quarters of its time, just after its deadline, then no more; without one never."""
    held = job(deadline=at(4000), state=JobState.HELD)
    looks = [next_warning(held, at(seconds)) for seconds in (0, 3000, 3001, 4000, 4001)]
    assert looks == [at(3001), at(3001), at(4001), at(4001), None]
    assert [read_progress(held, look).risk for look in looks[1:3]] == [Risk.WAITS_TOO_LONG, Risk.MISSED]
    assert next_warning(replace(held, deadline=None), at(0)) is None
    assert next_warning(replace(held, revision=2), at(0)) is None


def test_looks_come_closer_together_as_a_deadline_comes_near():
    """At half of what is left, never later than usual, never more often than the tick comes."""
    due = job(deadline=at(6000))
    looks = [next_look(due.deadline, at(seconds), timedelta(minutes=10)) for seconds in (0, 5400, 5940, 6000, 6001)]
    assert looks == [at(600), at(5700), at(6000), at(6060), at(6601)]
    assert next_look(None, at(5940), timedelta(minutes=10)) == at(6540)


def test_somebody_is_told_of_a_risk_once_and_of_a_graver_one_again():
    """What was told stays told, also when the job was better in between."""
    told = note_warning(job(), Risk.PREDICTED_LATE)
    assert note_warning(told, Risk.WAITS_TOO_LONG) is told
    assert note_warning(told, Risk.PREDICTED_LATE) is told
    assert note_warning(told, Risk.MISSED).warned is Risk.MISSED


def test_amounts_are_plain_decimals():
    """Whatever could claim more digits than it has characters is refused."""
    assert amounts({"amount": "-12.50"}) == {"amount": Decimal("-12.50")}
    for text in ("", "1e3", "Infinity", "1_000", "٣", "1.", "1" * 31, "0x10"):
        with pytest.raises(ValueError, match="decimal number"):
            amounts({"amount": text})


def test_a_job_of_which_everything_was_parked_is_not_called_completed():
    """Neither its row nor its line in the list; one that has a chunk done has its state's own name."""
    failed = job(chunks=2, state=JobState.COMPLETED_WITH_PARKED, parked_chunks=2)
    line = Listed(job="j", accepted_at=at(0), workload="w", gate=None)
    assert describe_state(failed) == "failed: all parked"
    assert describe_state(replace(failed, done=1, parked_chunks=1)) == "completed_with_parked"
    assert describe_state(replace(line, state=failed.state, chunks=2, parked_chunks=2)) == "failed: all parked"
    assert describe_state(line) is None
