"""Resumes a paused job, after a person has seen why it paused."""

from contextlib import suppress
from dataclasses import dataclass

from shared.clock import Clock
from shared.errors import ActStaleError, JobStateError, SignalNotSentError
from shared.ledger import Job, JobState, Ledger, change, counting, may_dispatch, resume
from shared.pending import DISPATCH_POINTER, PendingTable, Pointer
from shared.pipeline import FinishCall
from shared.signals import Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Resumes paused jobs."""

    ledger: Ledger
    finish: FinishCall
    pending: PendingTable
    hints: Signals
    clock: Clock

    def resume(self, job_id: str, *, seen: str | None = None) -> Job:
        """Resume the job and return it. Raise JobStateError for a job that is not paused.

        `seen`: only if the job's row has this ETag, else raise ActStaleError.
        """
        with counting():
            job = self._resume(job_id, seen)
        # A crash from here on is repaired by the pointer that every unfinished job has.
        if job.state is JobState.FINISHING:
            self.finish.send(job)
        elif may_dispatch(job):
            # The next tick dispatches it. Where there is a bus, a worker does so at once.
            self.pending.add(Pointer(DISPATCH_POINTER, self.clock.now(), job.job))
            with suppress(SignalNotSentError):
                self.hints.send_job(job.job)
        return job

    def _resume(self, job_id: str, seen: str | None) -> Job:
        now = self.clock.now()

        def decide(job: Job) -> Job:
            if seen is not None and job.etag != seen:
                raise ActStaleError(
                    f"job {job_id!r} was changed since you saw it: it is {job.state.value}, {job.parked_chunks} of "
                    f"{job.chunks} chunks are parked; nothing was done"
                )
            if job.state is not JobState.PAUSED:
                raise JobStateError(f"could not resume job {job_id!r}: it is {job.state.value}, expected paused")
            return resume(job, now)

        job = change(self.ledger, job_id, decide, tried="resume the job")
        if job is None:
            raise JobStateError(f"could not resume job {job_id!r}: it is not known, expected paused")
        return job
