"""Small jobs whose rows have their plans, and say that their chunks were put before they are."""

import json
import math
from dataclasses import replace
from hashlib import sha256

import pytest

from shared.errors import NewerVersionError
from shared.gate import OneMark, Reading
from shared.ledger.entities import job_entity, job_of
from shared.ledger.job_decisions import bury
from shared.ledger.records import ChunkRow, ChunkState, JobState, PlanBlob, PlanText
from shared.pipeline.accept import Accepted
from tests.pipeline.test_sweep import sent_chunks, sweep  # noqa: F401 - a fixture


def small(world, one):
    """Have the row of a small job, as one that died before the put left it."""
    one.plan(world.submission(), "m1", is_ahead=True)
    job = world.ledger.read(world.job)
    assert (job.state, job.dispatch_cursor, type(job.plan)) == (JobState.DISPATCHING, 1, PlanText)
    return job


def test_a_small_job_is_accepted_by_one_write_of_its_row(world, process):
    """Its plan, its ids and its cursor are in it before its chunk is put, which names no blob."""
    one = process()
    blobs = one.connections.blobs.get_container_client("plans")
    assert one.accept(world.submission(), "m1") is Accepted.DISPATCHED
    job = world.ledger.read(world.job)
    assert (job.state, job.dispatch_cursor, job.id_base, job.items) == (JobState.DISPATCHING, 1, 1, 25)
    assert [*blobs.list_blob_names(name_starts_with=world.job)] == []
    (message,) = world.queues.on("work-")
    assert (message["chunk"], message["first_id"], "again" in message, "blob" in message) == (0, 1, False, False)


def test_its_requests_are_counted_in_its_row(world, process):
    """No later write of this stage would note them."""
    one = process()
    one.accept(world.submission(), "m1")
    counted = world.ledger.read(world.job).requests
    # The pointer; the row and its line in the list.
    assert counted["table useful"] == 1 + 2


def test_where_the_queues_are_full_it_waits_its_turn_with_its_plan_in_its_row(world, process):
    """The feeder puts its chunk, and its row is written as that of any other job."""
    world.room.left = 0
    one = process()
    assert one.accept(world.submission(), "m1") is Accepted.DISPATCHED
    job = world.ledger.read(world.job)
    assert (job.state, job.dispatch_cursor, type(job.plan)) == (JobState.PLANNING, 0, PlanText)
    rows = [row for row in one.ready.read("") if row.job == world.job]
    one.ready.remove(rows)
    assert (len(rows), world.queues.sent) == (1, [])
    assert one.dispatch(world.job)
    assert world.ledger.read(world.job).state is JobState.RUNNING


@pytest.mark.parametrize(
    ("reading", "state"), [(Reading(3, is_open=False), "held"), (Reading(3, is_open=True), "dispatching")]
)
def test_the_answer_of_its_gate_is_in_the_same_write(world, process, reading, state):
    """A closed gate holds it, an open one lets it through."""
    world.gates.now, one = reading, process()
    one.plan(world.submission(gate="nightly"), "m1", is_ahead=True)
    job = world.ledger.read(world.job)
    assert (job.state, job.held_epoch, job.passed_epoch) == (state, 3, 3 if reading.is_open else None)
    assert job.dispatch_cursor == int(reading.is_open)


def test_a_held_one_starts_by_its_note(world, process):
    """As every held job, from the plan in its row."""
    one = process()
    assert one.accept(world.submission(gate="nightly"), "m1") is Accepted.HELD
    (entry,) = world.gates.rows.values()
    assert one.starter.carry_out(entry, Reading(1, is_open=True), math.inf, OneMark(None))
    job = world.ledger.read(world.job)
    assert (job.state, type(job.plan), len(world.queues.on("work-"))) == (JobState.RUNNING, PlanText, 1)


@pytest.mark.parametrize(
    "fields", [{"items": 26}, {"deadline": "2026-12-01T00:00:00Z"}], ids=["two chunks", "a deadline"]
)
def test_which_jobs_are_not_noted_ahead(world, process, fields):
    """One of two chunks has a cursor, and one with a deadline may have a lane."""
    process().accept(world.submission(**fields), "m1")
    assert world.ledger.read(world.job).state is JobState.RUNNING


def test_a_plan_that_is_too_long_for_a_row_is_a_blob(world, process):
    """Each write of the row would write it again."""
    lines = [
        {"amount": "1.10", "n": "".join(sha256(b"%d" % (n * 7 + m)).hexdigest() for m in range(7))} for n in range(25)
    ]
    body = json.dumps({"sluice": {"job": world.job, "items": lines}}).encode()
    process().accept(body, "m1")
    assert isinstance(world.ledger.read(world.job).plan, PlanBlob)


def test_the_submission_that_comes_again_puts_what_may_not_have_been_put(world, process):
    """Whatever the cursor says. The mark has the worker search for a first result."""
    job = small(world, process())
    assert process().accept(world.submission(), "m1", again=True) is Accepted.DISPATCHED
    (message,) = world.queues.on("work-")
    assert (message["chunk"], message["again"], message["first_id"]) == (0, True, 1)
    assert world.ledger.read(world.job) == job


def test_another_submission_of_it_is_a_duplicate(world, process):
    """The first one is there, or comes again."""
    small(world, process())
    assert process().accept(world.submission(), "m2") is Accepted.DUPLICATE
    assert world.queues.sent == []


def test_a_chunk_that_has_ended_is_not_put_again(world, process):
    """Its row was read before the settler wrote that it ended."""
    one = process()
    job = small(world, one)
    row = ChunkRow(job=world.job, chunk=0, state=ChunkState.DONE, revision=1, settled_at=world.clock.now())
    world.ledger.commit(replace(job, state=JobState.FINISHING, done=1), [row])
    one.starter.start(job)
    assert world.queues.sent == []


def test_a_chunk_that_waits_on_its_queue_is_not_put_by_the_tick(world, sweep):  # noqa: F811 - the fixture
    """Lost ones are put again when they had their turn, as those of any other job, and once."""
    small(world, sweep.process)
    world.fronts.until = world.clock.now()
    for _ in range(3):
        sweep(minutes=30)
    assert sent_chunks(world) == []
    world.fronts.until = None
    sweep(minutes=30)
    assert sent_chunks(world) == [0]
    assert world.ledger.read(world.job).nudged_at == world.clock.now()


def test_the_plan_goes_with_the_burial(world, process):
    """The transactions are in it. A submission of before is still told from another one."""
    job = replace(small(world, process()), state=JobState.COMPLETE)
    assert "inline" in job_entity(job)["plan_text"]
    tombstone = bury(job)
    assert job_of(job_entity(tombstone), "") == replace(tombstone, etag="")
    assert (tombstone.plan, tombstone.chunks, tombstone.content_hash) == (None, 1, job.content_hash)


def test_a_newer_plan_waits_for_its_reader(world, process):
    """It is not lost, and its job is not paused."""
    one = process()
    job = small(world, one)
    world.ledger.commit(replace(job, plan=PlanText(job.plan.text[:-1] + ',"v":2}')))
    with pytest.raises(NewerVersionError):
        process().accept(world.submission(), "m1", again=True)
    assert world.ledger.read(world.job).state is JobState.DISPATCHING
