"""Observing a job: each chunk once, in whatever order it lands, then exactly one end."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shared.errors import JobFailedError
from shared.ledger.observing import ObservedJob
from shared.ledger.records import ChunkRow, ChunkState, Job, JobState, PlanBlob
from tests.gate.conftest import ManualClock
from tests.ledger.memory_ledger import MemoryLedger

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Recorder:
    """An observer that remembers what it was told, and may fail at it."""

    def __init__(self, *, fails=False):
        self.told, self._fails = [], fails

    def on_next(self, row):
        """Remember a chunk."""
        self.told.append((row.chunk, row.state.value))
        if self._fails:
            raise ValueError("a subscriber's own mistake")

    def on_error(self, error):
        """Remember a bad end."""
        self.told.append(error)

    def on_completed(self, job):
        """Remember a good end."""
        self.told.append(job.state)


class Script:
    """A job in a ledger; each look of an observer is followed by the next of its steps."""

    def __init__(self, *steps):
        self.ledger, self.clock, self._steps = MemoryLedger(), ManualClock(NOON), list(steps)
        plan = PlanBlob("j/plan", "e")
        self.ledger.insert(
            Job(job="j", content_hash="h", workload="w", accepted_at=NOON, state=JobState.RUNNING, chunks=3, plan=plan)
        )

    def pause(self, seconds):
        """Do the next step in the place of waiting."""
        self.clock.advance(seconds=seconds)
        if self._steps:
            self._steps.pop(0)(self)

    def settle(self, chunk, state=ChunkState.DONE, **changes):
        """Let a chunk land."""
        known = self.ledger.rows_of("j", [chunk]).get(chunk)
        row = ChunkRow(job="j", chunk=chunk, state=state, revision=1, settled_at=NOON, etag=known.etag if known else "")
        self.ledger.commit(replace(self.ledger.read("j"), **changes), [row])

    def end(self, state, **changes):
        """End the job."""
        self.ledger.commit(replace(self.ledger.read("j"), state=state, **changes))

    def observed_by(self, *observers, timeout=None):
        """Run the job to its end and return how it ended."""
        job = ObservedJob(self.ledger, "j", clock=self.clock, pause=self.pause)
        for observer in observers:
            job.subscribe(observer)
        return job.run(timeout)


def test_each_chunk_is_told_once_and_then_the_end():
    """Chunks come as they land, none twice, and the last word is that the job is complete."""
    script = Script(
        lambda s: s.settle(2), lambda s: s.settle(0), lambda s: s.settle(1), lambda s: s.end(JobState.COMPLETE)
    )
    one, other = Recorder(), Recorder()
    assert script.observed_by(one, other) is JobState.COMPLETE
    assert one.told == other.told == [(2, "done"), (0, "done"), (1, "done"), JobState.COMPLETE]


def test_what_landed_before_the_subscription_is_told_too():
    """A late subscriber misses nothing: the ledger is the source, not the moment."""
    script = Script(lambda s: s.end(JobState.COMPLETE))
    script.settle(0)
    recorder = Recorder()
    script.observed_by(recorder)
    assert recorder.told == [(0, "done"), JobState.COMPLETE]


def test_a_parked_chunk_that_is_replayed_is_told_again_as_done():
    """The same chunk twice, for it ended twice: first parked, then done."""
    script = Script(
        lambda s: s.settle(0, ChunkState.PARKED),
        lambda s: s.settle(0, ChunkState.DONE),
        lambda s: s.end(JobState.COMPLETE),
    )
    recorder = Recorder()
    script.observed_by(recorder)
    assert recorder.told == [(0, "parked"), (0, "done"), JobState.COMPLETE]


@pytest.mark.parametrize("state", [JobState.UNBALANCED, JobState.PAUSED])
def test_a_job_that_does_not_end_well_is_an_error_with_its_problem(state):
    """on_error and not on_completed, with what a person needs to know."""
    recorder = Recorder()
    script = Script(lambda s: s.end(state, problem="3 of 10 are missing"))
    assert script.observed_by(recorder) is state
    (error,) = recorder.told
    assert isinstance(error, JobFailedError)
    assert "3 of 10 are missing" in str(error)


def test_an_observer_that_fails_is_dropped_and_the_others_hear_everything():
    """One subscriber's exception is its own."""
    bad, good = Recorder(fails=True), Recorder()
    script = Script(lambda s: s.settle(0), lambda s: s.settle(1), lambda s: s.end(JobState.COMPLETE))
    script.observed_by(bad, good)
    assert bad.told == [(0, "done")]
    assert good.told == [(0, "done"), (1, "done"), JobState.COMPLETE]


def test_the_wait_is_bounded():
    """A job that does not end is let go when the time is up, and says so."""
    recorder = Recorder()
    assert Script().observed_by(recorder, timeout=10) is None
    assert recorder.told == []


def test_whoever_ends_the_subscription_hears_nothing_more():
    """The returned function is the way out."""
    script, recorder = Script(lambda s: s.settle(0), lambda s: s.end(JobState.COMPLETE)), Recorder()
    job = ObservedJob(script.ledger, "j", clock=script.clock, pause=script.pause)
    job.subscribe(recorder)()
    job.run()
    assert recorder.told == []
