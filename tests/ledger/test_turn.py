"""The turn of a job on its queues: what waits is left alone, and what is lost is found."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.ledger.job_decisions import Turn, first_turn, note_turn
from shared.ledger.records import JobState
from shared.ledger.settlement import (
    FRONT,
    MARGIN,
    UNKNOWN_COUNTS_AFTER,
    Fronted,
    Fronts,
    Silence,
    Watermark,
    judge_silence,
    over_since,
    read_turn,
    read_watermark,
    turn_of,
)
from shared.topology import work_queue_names, work_queue_of
from tests.ledger.builders import at, job

PATIENCE = timedelta(minutes=10)
LATE = at(7200)


def fronts(moment, queues=1, *, is_drained=False):
    """Return the fronts of queues that have all handed out everything before this moment."""
    return Fronts(dict.fromkeys(work_queue_names(queues), Watermark(moment, is_drained)), queues)


def judged(found, marks, noted=None, now=LATE):
    """Return what the silence of a job means at the end of the test's time."""
    return judge_silence(found, noted, marks, now, PATIENCE)


def silent(**changes):
    """Return a job whose last chunk was put a second after its acceptance, and that never moved since."""
    return job(**{"put_until": at(1)} | changes)


def test_the_watermark_is_the_oldest_message_that_was_never_received():
    """What came back after a failed delivery stands before it or behind it and says nothing."""
    failed, fresh, older = Fronted(at(1), 2), Fronted(at(30), 0), Fronted(at(20), 0)
    assert read_watermark([failed, fresh, older], LATE) == Watermark(at(20))


def test_a_queue_without_a_message_that_waits_for_its_first_delivery_has_handed_out_everything():
    """An empty one, and one that shows nothing but failed deliveries and has room for more in the reply."""
    drained = Watermark(LATE, is_drained=True)
    assert read_watermark([], LATE) == drained
    assert read_watermark([Fronted(at(1), 1)] * (FRONT - 1), LATE) == drained


def test_a_front_of_failed_deliveries_hides_what_is_behind_it_but_not_for_ever():
    """Nobody knows for an hour; after that, silence alone decides."""
    front = [Fronted(at(1), 1)] * FRONT
    assert read_watermark(front, LATE) == Watermark(None)
    assert read_watermark(front, LATE, LATE - UNKNOWN_COUNTS_AFTER + timedelta(seconds=1)) == Watermark(None)
    assert read_watermark(front, LATE, LATE - UNKNOWN_COUNTS_AFTER) == Watermark(LATE)
    assert judged(silent(), fronts(None)) is Silence.WAITS


def test_a_job_whose_chunk_is_still_behind_the_front_waits_however_silent_it_is():
    """Its turn is over when the watermark is beyond its last put by more than the clock's coarseness."""
    assert judged(silent(), fronts(at(1) + MARGIN - timedelta(seconds=1))) is Silence.WAITS
    assert judged(silent(), fronts(at(1) + MARGIN)) is not Silence.WAITS


def test_each_queue_that_a_job_uses_must_have_handed_out_its_chunks_and_no_other():
    """A job of one chunk does not wait for its neighbours' queues."""
    one, names = silent(chunks=1), work_queue_names(4)
    mine = work_queue_of(one.job, 0, 4)
    slow = Fronts({name: Watermark(LATE, is_drained=True) for name in names} | {mine: Watermark(at(0))}, 4)
    others = Fronts(dict.fromkeys(names, Watermark(at(0))) | {mine: Watermark(LATE, is_drained=True)}, 4)
    assert (judged(one, slow), judged(one, others)) == (Silence.WAITS, Silence.LOST)
    assert judged(silent(chunks=4), others) is Silence.WAITS


def test_on_drained_queues_silence_alone_is_enough():
    """Nothing waits there, so the chunk was handed out or is gone."""
    assert judged(silent(), fronts(LATE, is_drained=True)) is Silence.LOST
    short = fronts(LATE, is_drained=True)
    assert judged(silent(progressed_at=LATE), short) is Silence.SHORT


def test_beside_a_backlog_a_delivery_has_its_time_from_the_tick_that_saw_its_turn():
    """It may be a second old; the note of the pointer keeps since when the turn is over."""
    found, marks = silent(), fronts(at(3600))
    assert judged(found, marks) is Silence.IN_WORK
    noted = turn_of(found)._replace(over_since=LATE - PATIENCE + timedelta(seconds=1))
    assert judged(found, marks, noted) is Silence.IN_WORK
    assert over_since(turn_of(found), noted, LATE) == noted.over_since
    assert judged(found, marks, noted._replace(over_since=LATE - PATIENCE)) is Silence.LOST


def test_what_was_put_since_begins_its_own_turn():
    """A note about an earlier put says nothing about a later one."""
    noted = Turn(at(1), 3, LATE - PATIENCE)
    assert judged(silent(put_until=at(2)), fronts(at(3600)), noted) is Silence.IN_WORK
    assert judged(silent(put_until=at(3599)), fronts(at(3600)), noted) is Silence.WAITS


def test_a_repetition_that_stopped_goes_on_without_a_turn_of_its_own():
    """Its other chunks had theirs; those that were just put again are not in the rest."""
    assert judged(silent(again_from=2, put_until=at(7000)), fronts(at(5))) is Silence.LOST
    assert judged(silent(again_from=2, nudged_at=at(7000)), fronts(at(5))) is Silence.SHORT


def test_a_finish_message_waits_its_turn_from_the_last_result():
    """It is behind whatever was put before the last chunk ended."""
    ending = silent(state=JobState.FINISHING, progressed_at=at(3000), done=3)
    assert turn_of(ending) == Turn(at(3000), 1)
    assert judged(ending, fronts(at(3001))) is Silence.WAITS
    assert judged(ending, fronts(LATE, is_drained=True)) is Silence.LOST


def test_a_row_of_an_earlier_version_waits_from_its_last_progress():
    """It does not say when its chunks were put, but never after that."""
    old = silent(put_until=None, progressed_at=at(50))
    assert (judged(old, fronts(at(51))), judged(old, fronts(at(52)))) == (Silence.WAITS, Silence.IN_WORK)


def test_a_job_that_put_nothing_waits_for_no_turn():
    """Nor one that waits for a person, nor one with a deadline, which is checked at any rate."""
    assert turn_of(silent(dispatch_cursor=0, state=JobState.PLANNING)) is None
    assert turn_of(silent(state=JobState.PAUSED)) is None
    assert first_turn(at(0), None) == Turn(at(0), 1)
    assert first_turn(at(0), at(9)) is None


@pytest.mark.parametrize("note", ["", "look", "tomorrow 1", "2026-11-21T12:00:00+00:00", "1 2 3 4"])
def test_a_note_of_another_version_means_a_look(note):
    """A look that was not needed costs requests; one that is missing would cost the job."""
    assert read_turn(note) is None


@given(st.datetimes(timezones=st.just(LATE.tzinfo)), st.integers(0, 10**6), st.booleans())
def test_a_note_is_read_as_it_was_written(moment, chunks, is_over):
    """Every turn, and none."""
    turn = Turn(moment, chunks, moment + timedelta(1) if is_over and moment.year < 9999 else None)
    assert read_turn(note_turn(turn)) == turn
    assert read_turn(note_turn(None)) is None


@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 3)), max_size=FRONT), st.integers(0, 9000))
def test_whatever_waits_for_its_first_delivery_is_never_taken_for_lost(front, put):
    """With the job's own message anywhere in the front: a watermark is never beyond it."""
    shown = [Fronted(at(seconds), received) for seconds, received in front[: FRONT - 1]] + [Fronted(at(put), 0)]
    waiting = replace(silent(), put_until=at(put), progressed_at=at(0))
    marks = Fronts({"work-00": read_watermark(shown, LATE)}, 1)
    assert judged(waiting, marks) is Silence.WAITS
