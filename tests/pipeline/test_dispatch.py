"""Dispatching: every chunk at least once, from a cursor, however often it is interrupted."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import msgspec
import pytest
from msgspec.structs import replace as with_fields

from shared.errors import StorageUnavailableError
from shared.gate.receipts import OneMark
from shared.ledger.job_decisions import resume
from shared.ledger.records import Job, JobState
from shared.messages import FirstChunkMark, decode, encode
from shared.parked.entry import chunk_key
from shared.parked.poison_policy import FailedAttempt
from shared.payload import Limits
from shared.pipeline import accept, dispatch
from shared.pipeline.dispatch import LEAST, MOST, STEP, FinishCall, Throttle
from shared.pipeline.plan import PlannedChunk, plan_of
from shared.telemetry import events
from shared.topology import work_queue_of
from tests.gate.conftest import NOON, taken


@pytest.fixture
def accepted(world, process, monkeypatch):
    """An accepted job of 250 chunks, and the process that accepted it."""
    monkeypatch.setattr(accept, "plan_of", lambda *given: in_chunks_of_one(given))
    one = process()
    one.plan(world.submission(250), "m1")
    return one


def in_chunks_of_one(given):
    """Return the plan of a payload as if each transaction were a frame: many chunks from a small message."""
    plan = plan_of(*given)
    frame = plan.chunks[0].frames[0]
    chunks = [PlannedChunk(n, [(frame[0], frame[1], 1, frame[3])]) for n in range(plan.items)]
    return type(plan)(job=plan.job, workload=plan.workload, source=plan.source, chunks=chunks)


def numbers(world):
    """Return the chunks that were put, as often as they were."""
    return sorted(message["chunk"] for message in world.queues.on("work-"))


def test_every_chunk_is_put_once_and_the_job_runs(world, accepted):
    """Nothing is put twice without a reason, and the cursor is at the end."""
    assert accepted.dispatch(world.job)
    assert numbers(world) == list(range(250))
    job = world.ledger.read(world.job)
    assert (job.state, job.dispatch_cursor) == (JobState.RUNNING, 250)


def test_chunks_are_spread_over_the_work_queues(world, accepted):
    """Each of four queues gets a quarter."""
    accepted.dispatch(world.job)
    per_queue = [len(world.queues.on(f"work-{n:02}")) for n in range(4)]
    assert sorted(per_queue) == [62, 62, 63, 63]


def test_jobs_of_one_chunk_share_four_queues(world, process):
    """No queue has a fifth more of them than another, and a chunk that is put again goes to its queue."""
    one, queues = process(), Counter()
    for number in range(400):
        world.job = f"nightly-{number:04}"
        queues[work_queue_of(world.job, 0, 4)] += 1
    assert len(queues) == 4
    assert max(queues.values()) <= 1.2 * min(queues.values())
    one.accept(world.submission(5), "m1")
    one.dispatcher.put_again(world.ledger.read(world.job), [0])
    assert {queue for queue, _ in world.queues.sent} == {work_queue_of(world.job, 0, 4)}
    assert len(world.queues.sent) == 2


def test_a_finish_message_is_on_the_queue_of_the_first_chunk(world):
    """So the ends of jobs are spread as their chunks are; a command that knows no number uses the first queue."""
    job = Job(job=world.job, content_hash="", workload="billing", accepted_at=NOON)
    for queues, wanted in ((4, work_queue_of(world.job, 0, 4)), (1, "work-00")):
        world.queues.sent.clear()
        FinishCall(world.queues.send, None, world.clock, work_queues=queues).send(job)
        assert [queue for queue, _ in world.queues.sent] == [wanted]


def test_ids_of_the_chunks_are_those_that_the_job_reserved(world, accepted):
    """The work messages carry the ids from the job's first to its last."""
    accepted.dispatch(world.job)
    base = world.ledger.read(world.job).id_base
    assert sorted(message["first_id"] for message in world.queues.on("work-")) == list(range(base, base + 250))


def test_a_second_dispatch_puts_nothing(world, accepted):
    """Any number of dispatches is one dispatch."""
    accepted.dispatch(world.job)
    assert accepted.dispatch(world.job)
    assert numbers(world) == list(range(250))


def test_a_crash_puts_again_at_most_what_the_cursor_had_not_noted(world, accepted, process, monkeypatch):
    """The next process goes on from the cursor."""

    class CrashError(BaseException):
        """The process ended here."""

    original = dispatch.Dispatcher.note
    noted = []

    def crash_at_the_second(self, job, cursor, put_until):
        noted.append(cursor)
        if len(noted) == 2:
            raise CrashError
        return original(self, job, cursor, put_until)

    monkeypatch.setattr(dispatch.Dispatcher, "note", crash_at_the_second)
    with pytest.raises(CrashError):
        accepted.dispatch(world.job)
    assert process().dispatch(world.job)
    put = numbers(world)
    assert sorted(set(put)) == list(range(250))
    assert len(put) == 250 + dispatch.CURSOR_EVERY


def pause_after(monkeypatch, world, method, calls):
    """Pause the job once the dispatcher has made so many calls of a method."""
    original, made = getattr(dispatch.Dispatcher, method), []

    def call(self, *given, **more):
        done = original(self, *given, **more)
        made.append(method)
        if len(made) == calls:
            world.ledger.commit(replace(world.ledger.read(world.job), state=JobState.PAUSED))
        return done

    monkeypatch.setattr(dispatch.Dispatcher, method, call)


def test_a_dispatch_stops_at_a_pause_and_a_resumed_job_goes_on_from_its_cursor(world, accepted, monkeypatch):
    """At most the hundred that was under way is put after the pause, and it is noted."""
    pause_after(monkeypatch, world, "prepare", 2)
    assert accepted.dispatch(world.job)
    paused = world.ledger.read(world.job)
    assert (paused.state, paused.dispatch_cursor) == (JobState.PAUSED, 2 * dispatch.CURSOR_EVERY)
    assert numbers(world) == list(range(2 * dispatch.CURSOR_EVERY))
    world.ledger.commit(resume(paused, world.clock.now()))
    assert accepted.dispatch(world.job)
    assert numbers(world) == list(range(250))


MARK = FirstChunkMark(gate="nightly", epoch=3, opened_at=NOON, seen_by="push")


def marked(world):
    """Return the chunks whose message has a mark."""
    return [message["chunk"] for message in world.queues.on("work-") if "first" in message]


def test_the_mark_of_a_release_is_on_one_message_of_one_job(world, accepted):
    """On the first one. It is read as it was written; the next job of the release finds it taken."""
    mark = OneMark(MARK)
    accepted.dispatch(world.job, mark=mark)
    assert marked(world) == [0]
    (first,) = (message for message in world.queues.on("work-") if "first" in message)
    assert decode(msgspec.json.encode({"sluice": first})).first == MARK
    assert taken(mark) is None


def test_a_message_without_room_leaves_the_mark_to_another_one(world, accepted, monkeypatch):
    """No put is refused for its size because of a mark; the mark is counted with the other one that may be added."""
    mark = OneMark(MARK)
    size = len(
        encode(
            with_fields(
                accepted.dispatcher.plans.read(world.job, world.ledger.read(world.job).plan).message(0, 1), again=True
            )
        )
    )
    monkeypatch.setattr("shared.gate.receipts.Limits", lambda: Limits(message_bytes=size + 60))
    accepted.dispatch(world.job, mark=mark)
    assert (marked(world), taken(mark)) == ([], MARK)


def test_a_chunk_that_is_put_again_has_no_mark(world, accepted):
    """Its delay has other reasons than the opening."""
    mark = OneMark(MARK)
    assert accepted.dispatcher.put_again(world.ledger.read(world.job), [0]) == world.clock.now()
    assert (marked(world), taken(mark)) == ([], MARK)


def again(world):
    """Return the chunks whose message says that another one may have been before it."""
    return sorted(message["chunk"] for message in world.queues.on("work-") if message.get("again"))


def test_what_may_have_been_put_before_the_cursor_was_noted_is_not_computed_again(world, accepted):
    """A dispatch that somebody else may have begun marks what that one may have put, and nothing behind it."""
    assert accepted.dispatch(world.job, again=True)
    assert again(world) == list(range(dispatch.CURSOR_EVERY))


def test_a_chunk_that_has_ended_tells_that_others_may_have(world, accepted):
    """Nobody noted the cursor, and yet a result is there: the dispatch that follows marks what may be there too."""
    world.ledger.commit(replace(world.ledger.read(world.job), done=1))
    accepted.dispatch(world.job)
    assert again(world) == list(range(dispatch.CURSOR_EVERY))


def test_a_put_without_an_answer_is_marked_when_it_is_put_again(world, accepted):
    """It may have taken effect; the other chunks cost no look for a result."""
    world.queues.refuse_next = 5
    accepted.dispatch(world.job)
    assert len(again(world)) == 5


def test_what_storage_refuses_is_put_by_the_next_batch(world, accepted):
    """A busy account costs time, not chunks."""
    world.queues.refuse_next = 37
    assert accepted.dispatch(world.job)
    assert numbers(world) == list(range(250))


def test_storage_that_takes_nothing_ends_the_attempt_with_the_cursor_kept(world, accepted):
    """An outage is left to the next delivery, which begins where this one stopped."""
    world.queues.refuse_next = 10_000
    with pytest.raises(StorageUnavailableError, match="could not put any of 100 chunks"):
        accepted.dispatch(world.job)
    world.queues.refuse_next = 0
    assert accepted.dispatch(world.job)
    assert sorted(set(numbers(world))) == list(range(250))


def test_a_dispatch_that_takes_too_long_hands_over(world, accepted):
    """At the end of its time it says that the rest is for another one, and loses nothing."""
    over = world.clock.monotonic()
    assert not accepted.dispatch(world.job, until=over)
    assert world.ledger.read(world.job).dispatch_cursor == dispatch.CURSOR_EVERY
    assert not accepted.dispatch(world.job, until=over)
    assert accepted.dispatch(world.job, until=over)
    assert numbers(world) == list(range(250))


def test_a_job_that_nobody_let_pass_its_gate_is_not_dispatched(world, process):
    """Whoever asks for it: the row alone says whether it may start."""
    one = process()
    one.accept(world.submission(gate="nightly"), "m1")
    assert one.dispatch(world.job)
    assert (world.queues.sent, world.ledger.read(world.job).state) == ([], JobState.HELD)


def test_chunks_that_fell_silent_are_put_again_as_they_were(world, accepted):
    """The same message as at first, marked, so that what is done already is not computed again."""
    accepted.dispatch(world.job)
    first = {message["chunk"]: message for message in world.queues.on("work-")}
    world.queues.sent.clear()
    assert accepted.dispatcher.put_again(world.ledger.read(world.job), [7, 9]) == world.clock.now()
    assert world.queues.on("work-") == [first[7] | {"again": True}, first[9] | {"again": True}]


def test_a_chunk_that_waits_for_a_service_is_not_put_again(world, accepted):
    """Its message is hidden, and comes by itself. After a halt it may have been dropped, and then its note says nothing."""
    accepted.dispatch(world.job)
    job, now = world.ledger.read(world.job), world.clock.now()
    waiting = {"deliveries": 2, "kind": "TimeoutError", "place": "", "at": now, "put_off": 2}
    notes = [
        FailedAttempt(key=chunk_key(7, 1), due=now + timedelta(minutes=5), **waiting),
        # One that came back long ago, and one that failed.
        FailedAttempt(key=chunk_key(8, 1), due=now - timedelta(minutes=10), **waiting),
        FailedAttempt(key=chunk_key(9, 1), **waiting),
    ]
    starter, few = replace(accepted.starter, list_failures=lambda _job: notes), {*range(7, 10)}
    for halts, expected in ((0, [8, 9]), (1, [7, 8, 9])):
        world.queues.sent.clear()
        known = replace(job, halts=halts)
        with patch.object(type(starter), "_list_open", return_value=sorted(few)):
            starter.put_again(known)
        assert numbers(world) == expected
    world.queues.sent.clear()
    with patch.object(type(starter), "_list_open", return_value=[7]):
        assert starter.put_again(job) is job
    assert world.queues.sent == []


def test_puts_in_flight_stay_within_what_storage_bears(world, accepted, monkeypatch):
    """By what the fleet was told, which may change from one batch to the next; and back when it bears more."""
    bears, threads = iter([2, 2, 32]), []

    class Pool(ThreadPoolExecutor):
        def __init__(self, most):
            threads.append(most)
            super().__init__(most)

    monkeypatch.setattr(dispatch, "ThreadPoolExecutor", Pool)
    assert replace(accepted.dispatcher, most_puts=lambda: next(bears)).dispatch(world.ledger.read(world.job))
    assert numbers(world) == list(range(250))
    assert threads == [2, 2, 2 + STEP]


def test_the_throttle_grows_only_when_it_was_used_and_halves_when_refused():
    """It stays between its bounds, and an idle dispatcher does not drift to the maximum."""
    throttle = Throttle(8)
    assert throttle.after(put=3, refused=0) == throttle
    assert throttle.after(put=8, refused=0).limit == 10
    assert throttle.after(put=8, refused=1).limit == 4
    low, high = throttle, throttle
    for _ in range(20):
        low, high = low.after(put=0, refused=1), high.after(put=100, refused=0)
    assert (low.limit, high.limit) == (LEAST, MOST)


def test_a_plan_that_is_gone_is_a_persons_to_bring_back(world, accepted, told):
    """The job stands still with its problem and is told of once; brought back and resumed, it goes on."""
    job = world.ledger.read(world.job)
    world.ledger.commit(replace(job, plan=replace(job.plan, name=f"{world.job}/{'0' * 64}")))
    assert accepted.dispatch(world.job)
    assert accepted.dispatch(world.job)
    paused = world.ledger.read(world.job)
    assert paused.state is JobState.PAUSED
    assert "the plan of job" in paused.problem
    assert [line["job"] for line in told(events.JOB_PAUSED)] == [world.job]
    world.ledger.commit(resume(replace(paused, plan=job.plan), world.clock.now()))
    assert accepted.dispatch(world.job)
    assert numbers(world) == list(range(250))
