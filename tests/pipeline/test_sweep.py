"""The sweep: whatever was lost, the ledger knows it, and every accepted job goes on."""

import json
import math
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.gate.state import Reading
from shared.ledger.records import ChunkRow, ChunkState, JobState
from shared.ledger.settlement import Fronts, Watermark
from shared.pending import FINISH_POINTER, JOB_POINTER, Due, Followers, Pointer
from shared.pipeline import accept, start
from shared.pipeline.dispatch import FinishCall
from shared.pipeline.plan import PlanStore
from shared.pipeline.removal.cleanup import Retention
from shared.pipeline.sweep import FrontReading, Sweep
from shared.telemetry import events
from shared.topology import work_queue_names
from tests.faults.plan import KilledError, killed
from tests.pipeline.conftest import CHUNK_ITEMS
from tests.pipeline.test_dispatch import in_chunks_of_one
from tests.pipeline.test_start import waiting

OVERDUE = timedelta(minutes=10)


class KnownFronts:
    """Fronts of work queues that a test sets: the moment before which each has handed out everything."""

    def __init__(self, clock):
        self.clock, self.until, self.left, self.reads = clock, None, 30, 0

    def read(self):
        """Return the watermark of each queue: what was set, or that it is drained."""
        self.reads += 1
        mark = Watermark(self.clock.now(), is_drained=True) if self.until is None else Watermark(self.until)
        return FrontReading(Fronts(dict.fromkeys(work_queue_names(4), mark), 4), 0, self.left)

    def of(self, _job):
        """Return them for any job."""
        return self.read().fronts


class Behind:
    """Whether results wait for settlers, as a test says."""

    def __init__(self):
        self.is_behind, self.asked = False, []

    def are_behind(self, patience):
        """Say it."""
        self.asked.append(patience)
        return self.is_behind


@pytest.fixture
def sweep(world, process):
    """A function that follows this world's pointers, some minutes later, and returns how many there were."""
    one, world.fronts, world.waiting = process(), KnownFronts(world.clock), Behind()
    acceptance = one.acceptance
    made = Sweep(
        ledger=world.ledger,
        pending=acceptance.pending,
        starter=one.starter,
        stretching=None,
        fronts=world.fronts,
        results=world.waiting,
        finish=FinishCall(world.queues.send, acceptance.pending, world.clock),
        retention=Retention(
            ledger=world.ledger,
            parked=None,
            pending=acceptance.pending,
            bytes=None,
            forget_night=None,
            clock=world.clock,
            period=timedelta(days=30),
        ),
        clock=world.clock,
        overdue=OVERDUE,
    )

    followers = Followers([], world.clock)
    made.register(followers)

    def run(minutes=11, until=math.inf):
        world.clock.advance(minutes=minutes)
        due = Due([one for one in acceptance.pending.due(world.clock.now()) if one.id == world.job])
        return len([step() for step in followers.steps(due, until)])

    run.process = one
    return run


def due_later(sweep, world, minutes=11):
    """Return the pointers that lead to the job and will be due by then."""
    pending = sweep.process.acceptance.pending
    return [one for one in pending.due(world.clock.now() + timedelta(minutes=minutes)) if one.id == world.job]


def test_a_job_that_moves_is_left_alone_and_looked_at_later(world, sweep):
    """Progress within the time is a reason to wait; the pointer moves on."""
    world.clock.advance(minutes=-9)
    sweep.process.plan(world.submission(CHUNK_ITEMS), "m1")
    world.clock.advance(minutes=9)
    sweep.process.dispatch(world.job)
    world.queues.sent.clear()
    assert (sweep(minutes=2), world.queues.sent) == (1, [])
    assert len(due_later(sweep, world)) == 1


def test_chunks_lost_with_their_queue_are_put_again(world, sweep, told):
    """With every work message gone, the ledger alone brings the job back."""
    sweep.process.accept(world.submission(CHUNK_ITEMS), "m1")
    world.queues.sent.clear()
    sweep()
    assert [message["chunk"] for message in world.queues.on("work-")] == [0]
    assert world.ledger.read(world.job).nudged_at == world.clock.now()
    assert told(events.JOB_OVERDUE) == [{"job": world.job, "chunks": 1, "silent_seconds": 660}]


def test_nothing_is_put_again_while_results_wait_for_settlers(world, sweep):
    """Its chunks may be computed and wait to be credited: a tick later it is looked at again."""
    sweep.process.accept(world.submission(CHUNK_ITEMS), "m1")
    world.queues.sent.clear()
    world.waiting.is_behind = True
    sweep()
    assert world.queues.on("work-") == []
    assert world.waiting.asked == [OVERDUE / 2]
    world.waiting.is_behind = False
    sweep()
    assert [message["chunk"] for message in world.queues.on("work-")] == [0]


def test_a_job_whose_dispatch_never_came_is_dispatched(world, sweep):
    """Whoever planned it ended right after, and its submission is gone: the pointer leads to it all the same."""
    sweep.process.plan(world.submission(CHUNK_ITEMS), "m1")
    sweep()
    assert [message["chunk"] for message in world.queues.on("work-")] == [0]
    assert world.ledger.read(world.job).state is JobState.RUNNING


def test_a_dispatch_that_ran_out_of_time_goes_on_at_the_next_tick(world, sweep):
    """The pointer that it left is due at once; a tick that has no time for it either leaves it to the one after."""
    sweep.process.plan(world.submission(CHUNK_ITEMS), "m1")
    sweep.process.starter.leave_to_tick(world.job)
    sweep(0, until=world.clock.monotonic())
    assert world.ledger.read(world.job).dispatch_cursor == 0
    assert sweep(1) == 1
    assert world.ledger.read(world.job).state is JobState.RUNNING
    assert sweep(0) == 0


def test_a_job_whose_submission_was_lost_before_its_plan_is_told_of_until_it_comes_again(
    world, sweep, told, monkeypatch
):
    """Only the publisher can help, so somebody has to hear of it; the row says what to do until it is done."""
    with monkeypatch.context() as patched:
        patched.setattr(PlanStore, "put", lambda *_: killed())
        with pytest.raises(KilledError):
            sweep.process.accept(world.submission(2 * CHUNK_ITEMS), "m1")
    sweep()
    sweep()
    assert told(events.JOB_PLANLESS) == [
        {"job": world.job, "silent_seconds": 660},
        {"job": world.job, "silent_seconds": 1320},
    ]
    assert "send its submission again" in world.ledger.read(world.job).problem
    assert world.queues.sent == []
    sweep.process.accept(world.submission(2 * CHUNK_ITEMS), "m2")
    assert world.ledger.read(world.job).problem is None
    assert [message["chunk"] for message in world.queues.on("work-")] == [0, 1]
    sweep()
    assert len(told(events.JOB_PLANLESS)) == 2


def test_a_held_job_has_no_pointer_while_it_waits(world, sweep):
    """Its held row leads to it; the tick finds nothing to look at, however long the gate is closed."""
    sweep.process.accept(world.submission(CHUNK_ITEMS, gate="nightly"), "m1")
    assert world.gates.held == [("nightly", world.job)]
    assert due_later(sweep, world, minutes=100_000) == []
    assert world.ledger.read(world.job).state is JobState.HELD


@pytest.mark.parametrize("has_row", [False, True])
def test_a_process_that_ended_before_it_removed_the_pointer_is_looked_after_once(world, sweep, has_row):
    """Before its held row was there or right after: the look writes the row, or finds it, and removes the pointer."""
    if has_row:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(accept, "leave_to_gate", lambda *_: killed())
            with pytest.raises(KilledError):
                sweep.process.accept(world.submission(CHUNK_ITEMS, gate="nightly"), "m1")
    else:
        sweep.process.plan(world.submission(CHUNK_ITEMS, gate="nightly"), "m1")
    assert (len(world.gates.held), len(due_later(sweep, world))) == (has_row, 1)
    assert sweep() == 1
    assert (world.gates.held, due_later(sweep, world), world.queues.sent) == ([("nightly", world.job)], [], [])
    assert world.ledger.read(world.job).state is JobState.HELD


def test_a_held_job_whose_gate_was_opened_meanwhile_is_dispatched_and_keeps_a_pointer(world, sweep):
    """A pulse of the gate before the held row was there: the job's own epoch tells."""
    sweep.process.plan(world.submission(CHUNK_ITEMS, gate="nightly"), "m1")
    world.gates.now = Reading(1, is_open=False)
    sweep()
    assert [message["chunk"] for message in world.queues.on("work-")] == [0]
    assert (world.gates.held, len(due_later(sweep, world))) == ([], 1)


def test_a_held_row_that_was_lost_comes_again_with_its_submission(world, sweep):
    """Nobody looks at a held job by itself, so whoever removes its row has to have it dropped again."""
    sweep.process.accept(world.submission(CHUNK_ITEMS, gate="nightly"), "m1")
    world.gates.rows.clear()
    world.gates.now = Reading(1, is_open=False)
    sweep.process.accept(world.submission(CHUNK_ITEMS, gate="nightly"), "m2")
    assert [message["chunk"] for message in world.queues.on("work-")] == [0]
    assert len(due_later(sweep, world)) == 1


def test_a_job_that_never_came_to_be_loses_its_pointer(world, sweep):
    """A process that died between pointer and row leaves nothing that is looked at for ever."""
    pending = sweep.process.acceptance.pending
    pending.add(Pointer(JOB_POINTER, world.clock.now(), world.job))
    assert sweep() == 1
    assert due_later(sweep, world) == []


def test_a_finish_message_that_was_lost_is_sent_again(world, sweep):
    """A job whose chunks have all ended is finished even when the call for it was lost."""
    sweep.process.accept(world.submission(CHUNK_ITEMS), "m1")
    job = world.ledger.read(world.job)
    world.ledger.commit(replace(job, done=job.chunks, state=JobState.FINISHING))
    FinishCall(lambda *_: None, sweep.process.acceptance.pending, world.clock).point(world.job, job.revision)
    sweep()
    assert {message["kind"] for message in world.queues.on("work-00")} >= {"finish"}
    assert FINISH_POINTER not in {one.kind for one in due_later(sweep, world)}


def test_a_finished_job_is_never_looked_at_again(world, sweep):
    """The cost of the tick does not depend on how many jobs there ever were."""
    sweep.process.accept(world.submission(CHUNK_ITEMS), "m1")
    world.ledger.commit(replace(world.ledger.read(world.job), state=JobState.COMPLETE))
    assert sweep() == 1
    assert sweep() == 0


def late(caplog):
    """Return what was told of deadlines: the risk of each line."""
    lines = [line for line in caplog.messages if line.startswith("sluice.job.late ")]
    return [json.loads(line.split(" ", 1)[1])["risk"] for line in lines]


def test_a_deadline_warns_before_it_is_missed_and_each_risk_once(world, sweep, caplog):
    """A job that is held while its time runs out, is released, runs too slowly, and misses it: three lines in the log."""
    deadline = world.clock.now() + timedelta(minutes=40)
    sweep.process.accept(world.submission(CHUNK_ITEMS, gate="nightly", deadline=deadline.isoformat()), "m1")
    assert [sweep(minutes=minutes) for minutes in (10, 10)] == [0, 0]
    assert late(caplog) == []
    assert [sweep(minutes=minutes) for minutes in (11, 1)] == [1, 0]
    assert late(caplog) == ["waits_too_long"]
    world.gates.now = Reading(1, is_open=True)
    sweep.process.starter.go_on(world.job)
    running = world.ledger.read(world.job)
    world.ledger.commit(replace(running, chunks=10, done=1, state=JobState.RUNNING, progressed_at=world.clock.now()))
    for _ in range(3):
        sweep(minutes=2)
    assert late(caplog) == ["waits_too_long", "predicted_late"]
    for _ in range(6):
        sweep(minutes=1)
    assert late(caplog) == ["waits_too_long", "predicted_late", "missed"]


def test_a_look_for_the_sake_of_a_deadline_sends_nothing_again(world, sweep):
    """It comes sooner than the others, and whoever plans, dispatches or finishes the job is still about to go on."""
    soon = world.clock.now() + timedelta(minutes=4)
    sweep.process.plan(world.submission(CHUNK_ITEMS, deadline=soon.isoformat()), "m1")
    assert (sweep(minutes=2), world.queues.sent) == (1, [])
    job = world.ledger.read(world.job)
    world.ledger.commit(replace(job, done=job.chunks, state=JobState.FINISHING))
    assert (sweep(minutes=1), world.queues.sent) == (1, [])
    for minutes in (1, 1, 11):
        sweep(minutes=minutes)
    assert {message["kind"] for message in world.queues.on("work-00")} == {"finish"}


def test_a_job_that_was_late_although_nobody_looked_is_told_of_at_its_end(world, sweep, caplog):
    """The last look at a finished job says it; one that was in time says nothing."""
    sweep.process.accept(
        world.submission(CHUNK_ITEMS, deadline=(world.clock.now() + timedelta(hours=2)).isoformat()), "m1"
    )
    job = world.ledger.read(world.job)
    ended = replace(job, state=JobState.COMPLETE, finished_at=job.deadline + timedelta(seconds=1))
    world.ledger.commit(ended)
    sweep()
    assert late(caplog) == ["missed"]


def test_the_last_look_at_a_job_tells_the_list_how_it_ended(world, sweep, monkeypatch):
    """The process that ended it may have died before. The pointer goes after that, so the tick may die too."""
    sweep.process.accept(world.submission(CHUNK_ITEMS), "m1")
    job = world.ledger.read(world.job)
    world.ledger.commit(replace(job, state=JobState.COMPLETE, finished_at=world.clock.now()))
    monkeypatch.setattr(world.ledger, "tell_list", lambda _job: killed())
    with pytest.raises(KilledError):
        sweep()
    told = []
    monkeypatch.setattr(world.ledger, "tell_list", lambda ended: told.append((ended.job, ended.state)))
    sweep()
    assert told == [(world.job, JobState.COMPLETE)]


def test_a_job_that_had_a_need_is_looked_at_once_more_after_its_end(world, sweep):
    """A slow process may still write that the need began: the pointer stays until none is left that could."""
    sweep.process.accept(world.submission(CHUNK_ITEMS), "m1")
    job = world.ledger.read(world.job)
    world.ledger.commit(replace(job, state=JobState.COMPLETE, needs="-x-paused", finished_at=world.clock.now()))
    assert [sweep(minutes=minutes) for minutes in (9, 11, 11)] == [0, 1, 0]
    job = world.ledger.read(world.job)
    world.ledger.commit(replace(job, finished_at=world.clock.now()))
    sweep.process.acceptance.pending.add(Pointer(JOB_POINTER, world.clock.now(), world.job))
    assert [sweep(minutes=minutes) for minutes in (1, 8, 1, 11)] == [1, 0, 0, 1]


def test_a_need_that_storage_did_not_take_keeps_its_pointer(world, sweep, monkeypatch):
    """Of a held job, which has no other look, and of one that has ended."""
    deadline = world.clock.now() + timedelta(minutes=40)
    sweep.process.accept(world.submission(CHUNK_ITEMS, gate="nightly", deadline=deadline.isoformat()), "m1")
    monkeypatch.setattr(world.ledger, "tell_needs", lambda *_, **__: False)
    assert [sweep(minutes=minutes) for minutes in (31, 1, 1)] == [1, 1, 1]
    told = []
    monkeypatch.setattr(
        world.ledger, "tell_needs", lambda job, *, is_in_time: not told.append((job.warned, is_in_time))
    )
    assert [sweep(minutes=minutes) for minutes in (1, 1)] == [1, 0]
    assert told == [("waits_too_long", False)]


def test_one_job_that_fails_keeps_its_pointer(world, sweep, told):
    """Storage that fails in the middle is logged, and the next tick tries again."""
    sweep.process.accept(world.submission(CHUNK_ITEMS), "m1")
    world.queues.sent.clear()
    world.queues.refuse_next = 10_000
    sweep()
    assert [line["pointer"] for line in told(events.JOB_NEGLECTED)] == [world.job]
    world.queues.refuse_next = 0
    assert sweep() == 1
    assert [message["chunk"] for message in world.queues.on("work-")] == [0]


def sent_chunks(world):
    """Return the chunks on the work queues, and forget them."""
    sent = [message["chunk"] for message in world.queues.on("work-")]
    world.queues.sent.clear()
    return sent


def test_a_job_that_waits_its_turn_is_neither_read_nor_put_again(world, sweep):
    """Its chunk lies behind a backlog of hours: the pointer stays as it was written, whatever the silence."""
    sweep.process.accept(world.submission(CHUNK_ITEMS), "m1")
    world.fronts.until = world.clock.now()
    (before,) = due_later(sweep, world)
    world.queues.sent.clear()
    world.ledger.read = lambda _job: killed()
    for _ in range(5):
        sweep(minutes=30)
    assert due_later(sweep, world) == [before]
    assert sent_chunks(world) == []


def test_a_chunk_that_was_lost_in_a_backlog_is_put_again_when_it_had_its_turn_and_its_time(world, sweep):
    """Its delivery may have begun just before the tick; after the time of any chunk it is lost, and then it waits anew."""
    sweep.process.accept(world.submission(CHUNK_ITEMS), "m1")
    world.fronts.until = world.clock.now() + timedelta(minutes=1)
    sent_chunks(world)
    sweep(minutes=90)
    assert sent_chunks(world) == []
    sweep(minutes=9)
    assert sent_chunks(world) == []
    sweep(minutes=1)
    assert sent_chunks(world) == [0]
    row = world.ledger.read(world.job)
    assert (row.nudged_at, row.put_until) == (world.clock.now(), world.clock.now())
    for _ in range(5):
        sweep(minutes=30)
    assert sent_chunks(world) == []
    world.fronts.until = world.clock.now()
    sweep(minutes=1)
    sweep(minutes=11)
    assert sent_chunks(world) == [0]


def test_a_job_that_was_read_too_early_notes_when_to_be_read(world, sweep):
    """Its pointer is older than its last put: the note is corrected in its place, by one request, and then it rests."""
    sweep.process.plan(world.submission(CHUNK_ITEMS), "m1")
    world.clock.advance(minutes=5)
    sweep.process.dispatch(world.job)
    world.fronts.until = world.clock.now() - timedelta(minutes=1)
    (before,) = due_later(sweep, world)
    sent_chunks(world)
    sweep(minutes=11)
    (after,) = due_later(sweep, world)
    assert (after.due, after.note) == (before.due, f"{world.ledger.read(world.job).put_until.isoformat()} 1")
    world.ledger.read = lambda _job: killed()
    sweep(minutes=30)
    assert sent_chunks(world) == []


def test_a_tick_looks_at_so_many_jobs_for_nothing_and_leaves_the_others(world, sweep):
    """The cost of a backlog does not follow its length; a job without a turn to wait for is looked at all the same."""
    sweep.process.accept(world.submission(CHUNK_ITEMS), "m1")
    world.fronts.left = 0
    world.queues.sent.clear()
    sweep()
    assert sent_chunks(world) == []
    world.fronts.left = 1
    sweep()
    assert sent_chunks(world) == [0]


def test_a_stalled_dispatch_goes_on_while_what_it_put_still_waits(world, sweep, monkeypatch):
    """The rest was never put, so it has no turn to wait for."""
    sweep.process.accept(world.submission(5), "m1")
    row = world.ledger.read(world.job)
    world.ledger.commit(replace(row, state=JobState.DISPATCHING, chunks=2, dispatch_cursor=1))
    pending = sweep.process.acceptance.pending
    (pointer,) = due_later(sweep, world)
    pending.add(replace(pointer, note=""))
    world.fronts.until = world.clock.now()
    started = []
    monkeypatch.setattr(type(sweep.process.starter), "start", lambda _self, job, **_: started.append(job.job))
    world.queues.sent.clear()
    sweep()
    assert (started, sent_chunks(world)) == ([world.job], [])


def test_a_finish_message_that_waits_in_a_backlog_is_not_sent_again(world, sweep):
    """It is behind what was put before it; sent again, it waits anew."""
    sweep.process.accept(world.submission(CHUNK_ITEMS), "m1")
    job = world.ledger.read(world.job)
    world.ledger.commit(replace(job, done=job.chunks, state=JobState.FINISHING))
    world.queues.sent.clear()
    world.fronts.until = world.clock.now() + timedelta(seconds=1)
    for _ in range(3):
        sweep(minutes=30)
    assert world.queues.sent == []
    world.fronts.until = None
    sweep()
    assert [message["kind"] for message in world.queues.on("work-")] == ["finish"]
    assert world.ledger.read(world.job).nudged_at == world.clock.now()
    sweep(minutes=9)
    assert len(world.queues.sent) == 1


@pytest.fixture
def lost(world, sweep, monkeypatch):
    """A function that follows the pointers, of a job whose 25 chunks are lost. More than 10 wait for their turn."""
    monkeypatch.setattr(accept, "plan_of", lambda *given: in_chunks_of_one(given))
    monkeypatch.setattr(start, "MOST_AT_ONCE", 10)
    sweep.process.accept(world.submission(25), "m1")
    assert len(sent_chunks(world)) == 25
    return sweep


def test_many_lost_chunks_wait_for_their_turn(world, lost, told):
    """The tick puts none of them: their place is noted, their ready row is there, and a feeder is called."""
    lost()
    assert (sent_chunks(world), world.calls) == ([], [0.0])
    assert world.ledger.read(world.job).again_from == 0
    [row] = [row for row in lost.process.ready.read("") if row.job == world.job]
    assert (row.cursor, row.chunks) == (0, 25)
    waiting(lost.process)
    assert told(events.JOB_OVERDUE) == [{"job": world.job, "chunks": 25, "silent_seconds": 660}]


def test_few_of_many_chunks_are_put_again_at_once(world, lost):
    """All others have ended."""
    rows = [
        ChunkRow(job=world.job, chunk=number, state=ChunkState.DONE, revision=1, settled_at=world.clock.now())
        for number in range(15)
    ]
    world.ledger.commit(replace(world.ledger.read(world.job), done=15), rows)
    lost()
    assert (sent_chunks(world), world.calls) == ([*range(15, 25)], [])
    assert world.ledger.read(world.job).again_from is None


def test_a_process_that_ends_before_its_ready_row_leaves_it_to_the_next_tick(world, lost, monkeypatch):
    """The place alone brings no feeder, so the job stays silent, and the tick after writes the row."""
    with monkeypatch.context() as patched:
        patched.setattr(start.ReadyTable, "add", lambda *_: killed())
        with pytest.raises(KilledError):
            lost()
    assert (world.ledger.read(world.job).again_from, lost.process.ready.read("")) == (0, [])
    lost(1)
    assert (waiting(lost.process), sent_chunks(world)) == ([world.job], [])


def test_lost_chunks_that_wait_keep_their_ready_row(world, lost, told):
    """Its loss is repaired by the next look, which reads no rows of chunks and tells nothing twice."""
    lost()
    assert waiting(lost.process) == [world.job]
    world.ledger.rows = lambda _job: killed()
    lost()
    assert waiting(lost.process) == [world.job]
    assert len(told(events.JOB_OVERDUE)) == 1


def test_a_hint_leads_lost_chunks_to_their_turn_too(world, lost):
    """Such as that of a resume."""
    lost()
    assert waiting(lost.process) == [world.job]
    lost.process.starter.go_on(world.job)
    assert (waiting(lost.process), sent_chunks(world)) == ([world.job], [])


def test_a_job_that_waits_for_its_turn_is_not_put_around_the_feeder(world, sweep, told):
    """Its ready row is written once more, and it counts among the fruitless looks of a tick."""
    world.room.left = 0
    sweep.process.accept(world.submission(10 * CHUNK_ITEMS), "m1")
    sweep()
    assert (world.queues.sent, told(events.JOB_OVERDUE)) == ([], [])
    assert waiting(sweep.process) == [world.job]
    [pointer] = due_later(sweep, world)
    assert pointer.note.endswith(" 1")


def test_chunks_that_were_not_put_yet_are_no_lost_ones(world, sweep, told):
    """All that was put has ended, and the rest waits for its turn."""
    world.room.left = 4
    sweep.process.accept(world.submission(10 * CHUNK_ITEMS), "m1")
    world.queues.sent.clear()
    world.ledger.commit(replace(world.ledger.read(world.job), done=4))
    sweep()
    assert (world.queues.sent, told(events.JOB_OVERDUE)) == ([], [])
    assert waiting(sweep.process) == [world.job]
