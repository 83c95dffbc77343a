"""Buries finished jobs after their retention: removes their bytes and chunk rows, and leaves a tombstone.

Kept without limit: the tombstone (so that the same submission is still recognised), outputs and totals. The order makes
it safe: first the job becomes a tombstone that refers to no bytes, then the bytes go, then the pointer that led here.
A settler that had read the job before may still write a blob of results, which no row names. So a second check, a day later,
removes what is there by then.

A job of 10,000,000 has 1,250 rows and results, one of an earlier setting 100,000. So they go in groups, and a tick that has
no time left stops between two groups. The pointer stays due, and the next tick goes on.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.clock import Clock
from shared.errors import PlanLostError
from shared.grammar import room_of
from shared.ledger import FINISHED, Job, JobState, Ledger, bury, commit, counting
from shared.parked import ACCEPT, ParkedTable
from shared.pending import RETENTION_POINTER, PendingTable, Pointer
from shared.pipeline.plan import PlanStore
from shared.topology import PLANS, payload_container

#: A job that cannot be buried yet is checked again after this time.
LATER: Final = timedelta(days=1)
#: The note of the pointer to a buried job whose bytes were removed before.
SECOND_CHECK: Final = "second check"
#: Azure takes no more blobs in one request.
MOST_OF_A_BATCH: Final = 256
#: Removed now or before, or written again since, or leased: as `_remove` says of one blob.
_REMOVED: Final = frozenset({202, 404, 409, 412})


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Buries the jobs whose retention has ended. One per process."""

    ledger: Ledger
    parked: ParkedTable
    pending: PendingTable
    plans: PlanStore
    #: Returns the client of a container.
    container: Callable[[str], ContainerClient]
    clock: Clock
    period: timedelta

    def begin(self, job: Job) -> None:
        """Leave the pointer that is due when a finished job's retention ends."""
        self.pending.add(Pointer(RETENTION_POINTER, (job.finished_at or self.clock.now()) + self.period, job.job))

    def follow(self, pointer: Pointer, until: float) -> bool:
        """Bury the job of a due pointer. False: it is still needed, or the time was over."""
        with counting():
            job = self.ledger.read(pointer.id)
            is_needed = job is not None and not self._bury_job(job)
        if is_needed:
            # The new pointer before the old one goes: a job without a pointer would keep its bytes without limit.
            self.pending.add(replace(pointer, due=self.clock.now() + LATER))
            self.pending.remove(pointer)
            return False
        if job is not None:
            is_second = pointer.note == SECOND_CHECK
            for _ in self._remove_results(job) if is_second else self._remove_all(job):
                # After a group, not before it: each call removes something, however late it is.
                if self.clock.monotonic() >= until:
                    return False
            if not is_second:
                self.pending.add(replace(pointer, due=self.clock.now() + LATER, note=SECOND_CHECK))
        self.pending.remove(pointer)
        return True

    def _remove_all(self, job: Job) -> Iterator[None]:
        """Remove the job's rows and bytes, and yield after each group.

        Publishers share a container, so their blobs are removed by name, not by folder.
        """
        yield from self.ledger.remove_rows(job.job)
        yield from self._remove_results(job)
        if job.plan is not None:
            published = self.container(payload_container(room_of(job.job)))
            with suppress(PlanLostError):
                for name in self.plans.read(job.job, job.plan).blobs:
                    _remove_blob(published, name)
            # The plan goes after the blobs that it names: after a crash in between it is read again.
            _remove_blob(self.container(job.plan.container), job.plan.name)
        yield from _remove_folder(self.container(PLANS), f"{job.job}/")

    def _remove_results(self, job: Job) -> Iterator[None]:
        yield from _remove_folder(self.container("results"), f"{job.job}/")

    def _bury_job(self, job: Job) -> bool:
        if job.state is JobState.BURIED:
            return True
        # A replay may have begun another revision, and parked chunks are replayed from these very bytes. A parked
        # submission only claims to be of this job, so it is no reason to keep it; earlier versions stored it here too.
        is_needed = any(entry.stage != ACCEPT for entry in self.parked.entries(job.job))
        if job.state not in FINISHED or is_needed:
            return False
        return commit(self.ledger, bury(job)) is not None


def _remove_folder(container: ContainerClient, folder: str) -> Iterator[None]:
    with expecting_an_answer(f"remove the blobs in {container.container_name}/{folder}"):
        unchanged = MatchConditions.IfNotModified
        for page in container.list_blobs(name_starts_with=folder, results_per_page=MOST_OF_A_BATCH).by_page():
            if blobs := [{"name": blob.name, "etag": blob.etag, "match_condition": unchanged} for blob in page]:
                for reply in container.delete_blobs(*blobs, raise_on_any_failure=False):
                    if reply.status_code not in _REMOVED:
                        raise HttpResponseError(f"a blob of {folder} was not removed", response=reply)
                yield


def _remove_blob(container: ContainerClient, name: str) -> None:
    with expecting_an_answer(f"remove {container.container_name}/{name}"):
        try:
            etag = str(container.get_blob_client(name).get_blob_properties().etag)
        except ResourceNotFoundError:
            # Or its whole container is gone, which its publishers may delete.
            return
        _remove(container, name, etag)


def _remove(container: ContainerClient, name: str, etag: str) -> None:
    try:
        container.delete_blob(name, etag=etag, match_condition=MatchConditions.IfNotModified)
    except (ResourceModifiedError, ResourceNotFoundError, ResourceExistsError):
        # Touched since: a publisher is dropping it again, and the tombstone answers that. Or it is leased or has
        # snapshots: the sweep of orphans tries again.
        return
