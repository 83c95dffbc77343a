"""Puts the silent chunks of a job on their queues again, a thousand at a time, from the ledger and the plan alone.

The order: the messages of a slice, then the note in the job's row with the place to continue. After a crash in between,
one slice is put twice; a chunk counts once.
"""

from dataclasses import dataclass
from typing import Final

from shared.clock import Clock
from shared.ledger import Job, Ledger, change, list_open, note_put_again
from shared.pipeline.dispatch import Dispatcher
from shared.telemetry import events, tell

#: Chunks between two notes: upper bound of the chunks that a crash puts once more.
SLICE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PutAgain:
    """Repeats what was lost. One per process."""

    ledger: Ledger
    dispatcher: Dispatcher
    clock: Clock

    def put(self, job: Job, until: float) -> tuple[Job, bool]:
        """Put open chunks again. Return the job, and False if the time was up and another call must continue."""
        left = list_open(job, {row.chunk for row in self.ledger.rows(job.job)})
        while True:
            now, (slice_, left) = self.clock.now(), (left[:SLICE], left[SLICE:])
            put_until = self.dispatcher.put_again(job, slice_)
            silent = now - (job.progressed_at or job.accepted_at)
            tell(events.JOB_OVERDUE, job=job.job, chunks=len(slice_), silent_seconds=round(silent.total_seconds()))
            began, next_chunk = job.again_from, left[0] if left else None
            noted = change(
                self.ledger,
                job.job,
                lambda found: note_put_again(found, now, put_until, began=began, left=next_chunk),  # noqa: B023 - called here
                tried="note the chunks that were put again",
                known=job,
            )
            if noted is None or noted.again_from != next_chunk:
                # The job is gone, or another process has moved on.
                return noted or job, True
            job = noted
            if not left:
                return job, True
            if self.clock.monotonic() >= until:
                return job, False
