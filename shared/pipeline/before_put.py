"""The wake-ups around a put on the work queues, and the choice of the urgent lane before it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from shared.concurrency import Following
from shared.ledger import Job, Ledger, change, note_lane
from shared.topology import URGENT


class Waking(Protocol):
    """Entered around a put on the work queues."""

    def __call__(
        self, messages: int, coming: int, payload_bytes: float | None = None, /
    ) -> AbstractContextManager[None]:
        """Enter for so many messages. `coming` counts them and those that this dispatch still has.

        `payload_bytes` is the mean of the stored bytes that their workers read. None: they are no chunks.
        """


def wake_nobody(_messages: int, _coming: int, _payload_bytes: float | None = None) -> AbstractContextManager[None]:
    """Send no permit: polling finds the messages."""
    return nullcontext()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overtaking:
    """Chooses the lane of a job once, before its first message. The job's row keeps the choice for all later ones."""

    ledger: Ledger
    following: Following
    #: The messages that wait, some seconds ago at most.
    depth: Callable[[], int]

    def choose(self, job: Job) -> Job:
        """Return the job with its lane noted if it is predicted to miss its deadline behind the messages that wait."""
        if job.deadline is None or job.lane or job.dispatch_cursor:
            return job
        waiting = self.depth()
        if not waiting or not self.following.is_late(job.deadline, waiting + job.chunks):
            # Without a backlog there is nothing to overtake.
            return job
        noted = change(
            self.ledger,
            job.job,
            lambda found: note_lane(found, URGENT),
            tried="note its lane",
            known=job,
        )
        return noted or job

    def announce(self) -> None:
        """Say that messages come on the lane, before they are put: no task asks the lane otherwise."""
        self.following.announce()
