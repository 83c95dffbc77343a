"""What becomes of a finished job after its retention: a tombstone, and no bytes that nobody can need any more.

Kept for ever: the tombstone (so that the same submission is still known), outputs and totals. The order is what makes
it safe: first nothing refers to the bytes any more, then the bytes go, then the pointer that led here.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Protocol

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import PlanLostError
from shared.grammar import room_of
from shared.ledger import FINISHED, Job, JobState, Ledger, bury, commit, counting
from shared.parked import ACCEPT, Entry
from shared.pending import RETENTION_POINTER, PendingTable, Pointer
from shared.pipeline.plan import PlanStore
from shared.topology import PLANS, payload_container

#: A job that cannot be buried yet is looked at again after this.
LATER: Final = timedelta(days=1)


class OpenEntries(Protocol):
    """What is parked, as far as a job's end is concerned."""

    def entries(self, job: str | None = None) -> Iterator[Entry]:
        """Yield what is parked of a job and still open."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What burying jobs needs."""

    ledger: Ledger
    parked: OpenEntries
    pending: PendingTable
    plans: PlanStore
    #: Returns the client of a container.
    container: Callable[[str], ContainerClient]
    clock: Clock
    period: timedelta

    def begin(self, job: Job) -> None:
        """Leave the pointer that leads back to a finished job when its time is over."""
        self.pending.add(Pointer(RETENTION_POINTER, (job.finished_at or self.clock.now()) + self.period, job.job))

    def follow(self, pointer: Pointer) -> bool:
        """Bury the job that a due pointer leads to; False: it is needed, and looked at again later."""
        with counting():
            job = self.ledger.read(pointer.id)
            is_needed = job is not None and not self._bury_job(job)
        if is_needed:
            # The new pointer before the old one goes: a job that nobody would bury would keep its bytes for ever.
            self.pending.add(replace(pointer, due=self.clock.now() + LATER))
            self.pending.remove(pointer)
            return False
        if job is not None:
            self.ledger.remove_rows(job.job)
            self._remove_bytes(job)
        self.pending.remove(pointer)
        return True

    def _remove_bytes(self, job: Job) -> None:
        """Remove what the job owns; others may write beside it, so what its publisher wrote goes by name alone."""
        _empty(self.container("results"), f"{job.job}/")
        if job.plan is not None:
            published = self.container(payload_container(room_of(job.job)))
            with suppress(PlanLostError):
                for name in self.plans.read(job.job, job.plan).blobs:
                    _remove_blob(published, name)
            # The plan after what it names: whoever ends in between reads it again.
            _remove_blob(self.container(job.plan.container), job.plan.name)
        _empty(self.container(PLANS), f"{job.job}/")

    def _bury_job(self, job: Job) -> bool:
        if job.state is JobState.BURIED:
            return True
        # A replay may have begun another revision, and what is parked is replayed from these very bytes.
        # What only claims to be of this job is nobody's reason to keep it, wherever the version before put that.
        is_needed = any(entry.stage != ACCEPT for entry in self.parked.entries(job.job))
        if job.state not in FINISHED or is_needed:
            return False
        return commit(self.ledger, bury(job)) is not None


def _empty(container: ContainerClient, folder: str) -> None:
    with expecting_an_answer(f"remove what is in {container.container_name}/{folder}"):
        for blob in container.list_blobs(name_starts_with=folder):
            _remove(container, blob.name, blob.etag)


def _remove_blob(container: ContainerClient, name: str) -> None:
    with expecting_an_answer(f"remove {container.container_name}/{name}"):
        try:
            etag = str(container.get_blob_client(name).get_blob_properties().etag)
        except ResourceNotFoundError:
            # Or its whole container is, which its publishers may delete.
            return
        _remove(container, name, etag)


def _remove(container: ContainerClient, name: str, etag: str) -> None:
    try:
        container.delete_blob(name, etag=etag, match_condition=MatchConditions.IfNotModified)
    except (ResourceModifiedError, ResourceNotFoundError, ResourceExistsError):
        # Touched since: a publisher is dropping it again, and the tombstone answers that. Or it is leased, or has
        # snapshots: the sweep of what nobody needs looks at it again.
        return
