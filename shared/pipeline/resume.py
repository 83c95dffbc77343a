"""Lets a paused job go on, once a person has seen why it stopped."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.clock import Clock
from shared.errors import ContentionError, JobStateError, SignalNotSentError
from shared.ledger.decisions import may_dispatch, resumed
from shared.ledger.ledger import Ledger
from shared.ledger.records import Job, JobState
from shared.pending import PendingTable, Pointer
from shared.pipeline.finish_call import FinishCall
from shared.pipeline.start import DISPATCH_POINTER, Hints

MOST_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """What resuming needs."""

    ledger: Ledger
    finish: FinishCall
    pending: PendingTable
    hints: Hints
    clock: Clock

    def resume(self, job_id: str) -> Job:
        """Let the job go on and return it; raises JobStateError for one that is not paused."""
        job = self._written(job_id, self.clock.now())
        # The pointer that every unfinished job has makes good what is lost from here on.
        if job.state is JobState.FINISHING:
            self.finish.send(job.job, job.revision)
        elif may_dispatch(job):
            # The next tick goes on with it, and somebody at once where there is a bus to tell them.
            self.pending.add(Pointer(DISPATCH_POINTER, self.clock.now(), job.job))
            with suppress(SignalNotSentError):
                self.hints.send_job(job.job)
        return job

    def _written(self, job_id: str, now: datetime) -> Job:
        for _ in range(MOST_ATTEMPTS):
            job = self.ledger.read(job_id)
            if job is None or job.state is not JobState.PAUSED:
                raise JobStateError(
                    f"could not resume job {job_id!r}: it is {job.state.value if job else 'not known'}, expected paused"
                )
            written = self.ledger.commit(resumed(job, now))
            if written is not None:
                return written
        raise ContentionError(
            f"could not resume job {job_id!r}: others changed it {MOST_ATTEMPTS} times in a row; try again"
        )
