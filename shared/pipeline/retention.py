"""What becomes of a finished job after its retention: a tombstone, and no bytes that nobody can need any more.

Kept for ever: the tombstone (so that the same submission is still known), outputs and totals. The order is what makes
it safe: first nothing refers to the bytes any more, then the bytes go, then the pointer that led here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Protocol

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.answers import expecting_an_answer
from shared.clock import Clock
from shared.ledger.decisions import buried
from shared.ledger.ledger import Ledger
from shared.ledger.records import FINISHED, Job, JobState
from shared.pending import PendingTable, Pointer

#: The kind of the pointers that lead to finished jobs.
RETENTION_POINTER: Final = "retention"
#: A job that cannot be buried yet is looked at again after this.
LATER: Final = timedelta(days=1)


class Parked(Protocol):
    """What is parked, as far as a job's end is concerned."""

    def entries(self, job: str | None = None) -> Iterator[object]:
        """Yield what is parked of a job and still open."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What burying jobs needs."""

    ledger: Ledger
    parked: Parked
    pending: PendingTable
    #: Containers whose blobs are named after their job: payloads with plans, and results.
    containers: Sequence[ContainerClient]
    clock: Clock
    period: timedelta

    def begin(self, job: Job) -> None:
        """Leave the pointer that leads back to a finished job when its time is over."""
        self.pending.add(Pointer(RETENTION_POINTER, (job.finished_at or self.clock.now()) + self.period, job.job))

    def follow(self, pointer: Pointer) -> bool:
        """Bury the job that a due pointer leads to; False: it is needed, and looked at again later."""
        job = self.ledger.read(pointer.id)
        if job is not None and not self._buried(job):
            # The new pointer before the old one goes: a job that nobody would bury would keep its bytes for ever.
            self.pending.add(replace(pointer, due=self.clock.now() + LATER))
            self.pending.remove(pointer)
            return False
        if job is not None:
            self.ledger.remove_rows(job.job)
            for container in self.containers:
                _empty(container, f"{job.job}/")
        self.pending.remove(pointer)
        return True

    def _buried(self, job: Job) -> bool:
        if job.state is JobState.BURIED:
            return True
        # A replay may have begun another revision, and what is parked is replayed from these very bytes.
        if job.state not in FINISHED or next(iter(self.parked.entries(job.job)), None) is not None:
            return False
        return self.ledger.commit(buried(job)) is not None


def _empty(container: ContainerClient, folder: str) -> None:
    with expecting_an_answer(f"remove what is in {container.container_name}/{folder}"):
        for blob in container.list_blobs(name_starts_with=folder):
            try:
                container.delete_blob(blob.name, etag=blob.etag, match_condition=MatchConditions.IfNotModified)
            except (ResourceModifiedError, ResourceNotFoundError):
                # Touched since it was listed: a publisher is dropping it again, and the tombstone answers that.
                continue
