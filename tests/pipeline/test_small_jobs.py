"""Small jobs whose rows have their plans, and say that their chunks were put before they are."""

from dataclasses import replace

import pytest

from shared.errors import NewerVersionError
from shared.ledger.entities import job_entity, job_of
from shared.ledger.job_decisions import bury
from shared.ledger.records import ChunkRow, ChunkState, JobState, PlanText
from shared.pipeline.accept import Accepted
from tests.pipeline.test_sweep import sent_chunks, sweep  # noqa: F401 - a fixture


def small(world, one):
    """Have the row of a small job, as one that died before the put left it."""
    one.plan(world.submission(), "m1")
    job = world.ledger.read(world.job)
    text = one.acceptance.plans.read(job.job, job.plan).encode().decode()
    row = replace(job, plan=PlanText(text), state=JobState.DISPATCHING, dispatch_cursor=1, started_at=job.accepted_at)
    return world.ledger.commit(row)


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
