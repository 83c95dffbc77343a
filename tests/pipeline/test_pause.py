"""A person pauses a job: its messages are dropped, it stays paused until it is resumed, and its totals are then as ever."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.app import Stores
from shared.errors import ActStaleError, JobStateError, TooManyHaltsError
from shared.ledger.records import JobState
from shared.pending import HALT_POINTER
from shared.pipeline.halts import MOST_HALTS
from tests.faults.sales import PERMANENT
from tests.pipeline.whole_app import app_in_memory

#: More chunks than are put at once, so that some wait for their turn.
CHUNKS = 70
WHY = {"by": "ann", "why": "wrong tariff"}


@pytest.fixture(scope="module")
def app():
    """An installation on storage of its own."""
    with app_in_memory() as made:
        yield made


def begin(app, job, chunks=CHUNKS):
    """Submit a job, and end some of its chunks."""
    app.submit(job, chunks)
    app.deliver("submissions")
    app.go_on(1)
    found = app.read(job)
    assert 0 < found.done < found.dispatch_cursor < found.chunks
    return found


def look(app):
    """Have the process read the fleet's rows, as it does every ten seconds while it has work."""
    app.clock.advance(seconds=11)
    app.app.following.look()


def tick(app, times=1, minutes=4.0):
    """Let time pass, with ticks and deliveries."""
    for _ in range(times):
        app.clock.advance(minutes=minutes)
        app.app.tick()
        look(app)
        app.work_off()


def halts(app):
    """Return the halt rows and the jobs that have a pointer to one."""
    stores = Stores(app.others)
    later = app.clock.now() + timedelta(hours=1)
    return stores.fleet.read().halts, {one.id for one in stores.pending.due(later) if one.kind == HALT_POINTER}


def test_a_paused_job_holds_and_goes_on_to_the_same_totals(app):
    """Its messages are dropped, no tick puts them again, and the halt row goes when the queues have handed out all."""
    done = begin(app, "wrong").done
    paused = app.stores.job_operator.pause("wrong", **WHY)
    assert (paused.state, paused.by, paused.problem, paused.halts) == (JobState.PAUSED, "ann", "wrong tariff", 1)
    assert halts(app) == ({"wrong": 1}, {"wrong"})
    look(app)
    app.work_off()
    tick(app, 5)
    found = app.read("wrong")
    assert (found.state, found.done, found.problem) == (JobState.PAUSED, done, "wrong tariff")
    assert halts(app) == ({}, set())
    resumed = app.stores.job_operator.resume("wrong", by="ann", why="mended")
    assert (resumed.state, resumed.again_from, resumed.by) == (JobState.DISPATCHING, 0, None)
    tick(app, 2)
    found = app.read("wrong")
    assert (found.state, found.done, found.totals.accepted.items) == (JobState.COMPLETE, CHUNKS, 2 * CHUNKS)


def test_a_job_that_is_resumed_at_once_loses_nothing(app):
    """Messages of before are dropped while a process has not read that the halt is over; those of the resume are not."""
    begin(app, "twice")
    for _ in range(2):
        app.stores.job_operator.pause("twice", **WHY)
        look(app)
        app.go_on(1)
        app.stores.job_operator.resume("twice", by="ann", why="mended")
        app.app.tick()
        app.go_on(1)
    tick(app, 2)
    found = app.read("twice")
    assert (found.state, found.done, found.halts) == (JobState.COMPLETE, CHUNKS, 2)
    assert halts(app) == ({}, set())


def test_a_job_whose_chunks_all_end_stays_paused_until_a_person_resumes_it(app, monkeypatch):
    """What was in work counts. The finish is a new revision, as of every pause at the end."""
    app.submit("small", 3)
    app.deliver("submissions")
    app.deliver("work-00")
    app.stores.job_operator.pause("small", **WHY)
    app.work_off()
    tick(app, 8, minutes=11)
    found = app.read("small")
    assert (found.state, found.has_ended) == (JobState.PAUSED, True)
    woken = []
    monkeypatch.setattr(app.stores, "send_permits", lambda permits, *_: woken.extend(permits))
    assert app.stores.job_operator.resume("small", by="ann", why="mended").state is JobState.FINISHING
    # No tick comes before its finish.
    assert len(woken) == 1
    app.work_off()
    assert app.read("small").state is JobState.COMPLETE


@pytest.mark.parametrize("is_opened", [False, True])
def test_a_job_that_is_paused_behind_its_gate_does_not_jump_it_and_misses_no_opening(app, is_opened):
    """The release lets go of its held row. So a resume keeps it again, and the epochs say what happened meanwhile."""
    gate, job = f"nightly-{is_opened:d}", f"behind-{is_opened:d}"
    app.submit(job, 2, gate=gate)
    app.work_off()
    app.stores.job_operator.pause(job, **WHY)
    if is_opened:
        app.stores.gate_operator.open(gate, by="ann")
        tick(app)
        app.stores.gate_operator.close(gate, by="ann")
    tick(app)
    assert app.read(job).state is JobState.PAUSED
    assert app.stores.job_operator.resume(job, by="ann", why="mended").state is JobState.HELD
    tick(app)
    assert app.read(job).state is (JobState.COMPLETE if is_opened else JobState.HELD)
    app.stores.gate_operator.open(gate, by="ann")
    tick(app)
    assert app.read(job).state is JobState.COMPLETE


def test_a_job_that_pauses_for_its_parked_chunks_stops_too(app):
    """Its other chunks would mostly fail alike."""
    app.app.stages.workloads.find("sales").breaks_at = {"a": PERMANENT}
    begun = app.submit("broken", CHUNKS)
    app.deliver("submissions")
    app.go_on(1)
    app.app.stages.workloads.find("sales").breaks_at = {}
    found = app.read("broken")
    assert (begun, found.state, found.by, found.halts) == (None, JobState.PAUSED, "sluice", 1)
    assert (found.problem, halts(app)[0]) == (f"{found.parked_chunks} of {CHUNKS} chunks are parked", {"broken": 1})
    tick(app)
    assert app.read("broken").ended_chunks == found.ended_chunks
    app.stores.job_operator.resume("broken", by="ann", why="mended")
    tick(app, 2)
    found = app.read("broken")
    assert (found.state, found.ended_chunks) == (JobState.COMPLETED_WITH_PARKED, CHUNKS)


def test_a_halt_row_that_a_dead_process_did_not_write_is_written_by_the_tick(app, monkeypatch):
    """The job is paused, and the pointer leads to it."""
    begin(app, "half")
    monkeypatch.setattr(type(app.stores.fleet), "halt", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        app.stores.job_operator.pause("half", **WHY)
    monkeypatch.undo()
    assert halts(app) == ({}, {"half"})
    app.clock.advance(minutes=4)
    app.app.tick()
    assert halts(app) == ({"half": 1}, {"half"})
    app.stores.job_operator.resume("half", by="ann", why="mended")
    tick(app, 2)
    assert app.read("half").state is JobState.COMPLETE


def test_a_pause_that_cannot_be_is_refused_before_anything_is_written(app):
    """A process that dies in between must leave nothing that nobody announces."""
    job, operator = begin(app, "refused"), app.stores.job_operator
    with pytest.raises(ActStaleError, match="was changed since you saw it"):
        operator.pause("refused", **WHY, seen="another")
    for number in range(MOST_HALTS):
        app.stores.fleet.halt(f"other-{number:03}", 1)
    with pytest.raises(TooManyHaltsError, match="500 jobs are being halted, try again in some minutes"):
        operator.pause("refused", **WHY)
    for number in range(MOST_HALTS):
        app.stores.fleet.lift(f"other-{number:03}")
    assert halts(app) == ({}, set())
    assert app.read("refused") == job
    tick(app, 2)
    with pytest.raises(JobStateError, match="it is complete: it has ended"):
        operator.pause("refused", **WHY)
    app.stores.ledger.commit(replace(app.read("refused"), state=JobState.FINISHING))
    with pytest.raises(JobStateError, match="it is finishing: none of its transactions runs any more"):
        operator.pause("refused", **WHY)
    with pytest.raises(JobStateError, match="it is not known"):
        operator.pause("never", **WHY)
