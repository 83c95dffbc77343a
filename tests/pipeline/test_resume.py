"""Resuming a paused job: what is left of its dispatch goes on at once where there is a bus, and at the next tick without."""

from dataclasses import replace

import pytest

from shared.ledger.records import JobState
from shared.operating import AuditTable, JobOperator
from shared.pending import DISPATCH_POINTER
from shared.pipeline.dispatch import FinishCall
from tests.pipeline.test_start import waiting


@pytest.fixture
def paused(world, process):
    """A process with a job that was paused before all of it was dispatched, and what resumes it."""
    one = process()
    one.plan(world.submission(), "m1")
    world.ledger.commit(replace(world.ledger.read(world.job), state=JobState.PAUSED, problem="why"))
    pending = one.acceptance.pending
    finish = FinishCall(world.queues.send, pending, world.clock)
    audit = AuditTable(one.connections.tables.get_table_client("audit"), world.clock)
    one.operator = JobOperator(
        ledger=world.ledger,
        halts=one.halts,
        finish=finish,
        pending=pending,
        parked=None,
        audit=audit,
        hints=world.signals,
        wake_waiters=lambda _job: None,
        clock=world.clock,
    )
    return one


@pytest.mark.parametrize("is_down", [False, True])
def test_a_resumed_job_leaves_a_pointer_that_is_due_and_a_hint(world, paused, is_down):
    """Nothing is put on the publishers' queue; whoever hears of it or follows the pointer goes on from the cursor."""
    world.signals.is_down = is_down
    assert paused.operator.resume(world.job, by="ann", why="mended").state is JobState.DISPATCHING
    assert world.signals.sent == ([] if is_down else [world.job])
    due = [(one.kind, one.id) for one in paused.acceptance.pending.due(world.clock.now()) if one.id == world.job]
    assert due == [(DISPATCH_POINTER, world.job)]
    assert world.queues.sent == []
    paused.starter.go_on(world.job)
    assert [message["chunk"] for message in world.queues.on("work-")] == [0]
    assert world.ledger.read(world.job).state is JobState.RUNNING


def test_a_resumed_job_of_which_lost_chunks_wait_is_looked_at_at_once(world, paused):
    """All of it was put before it was paused, and some of that again."""
    row = world.ledger.read(world.job)
    world.ledger.commit(replace(row, dispatch_cursor=row.chunks, again_from=0))
    assert paused.operator.resume(world.job, by="ann", why="mended").state is JobState.RUNNING
    assert world.signals.sent == [world.job]
    paused.starter.go_on(world.job)
    assert world.job in waiting(paused)
