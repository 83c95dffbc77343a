"""The bytes of one job: where they are, and their removal. Retention and erasing share it.

A folder goes in groups, by the ETags that were listed: what is written again meanwhile stays, and goes with the next call.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.errors import PlanLostError
from shared.grammar import name_of, room_of
from shared.ledger import Job, Ledger, PlanBlob
from shared.payload import stretch_folder
from shared.pipeline.plan import PlanStore
from shared.topology import PLANS, payload_container

#: Azure takes no more blobs in one request.
MOST_OF_A_BATCH: Final = 256
#: Removed now or before, or written again since, or leased: as `remove_blob` says of one blob.
_REMOVED: Final = frozenset({202, 404, 409, 412})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBytes:
    """Removes what is kept of a job until its retention ends. One per process."""

    ledger: Ledger
    plans: PlanStore
    #: Returns the client of a container.
    container: Callable[[str], ContainerClient]

    def remove_kept(self, job: Job) -> Iterator[None]:
        """Remove the job's chunk rows, results, payload and plan, and yield after each group. Safe to repeat.

        Publishers share a container, so their blobs are removed by name, not by folder.
        """
        yield from self.ledger.remove_rows(job.job)
        yield from self.remove_results(job.job)
        if isinstance(job.plan, PlanBlob):
            published = self.container(payload_container(room_of(job.job)))
            with suppress(PlanLostError):
                for name in self.plans.read(job.job, job.plan).blobs:
                    remove_blob(published, name)
            if job.stretches:
                yield from self._remove_stretches(job, published)
            # The plan goes after the blobs that it names: after a crash in between it is read again.
            remove_blob(self.container(job.plan.container), job.plan.name)
        yield from remove_folder(self.container(PLANS), f"{job.job}/")

    def _remove_stretches(self, job: Job, published: ContainerClient) -> Iterator[None]:
        """Remove what its publisher wrote for the stretches behind the first one. The rows that lead to it go last."""
        for row in self.ledger.stretches_of(job.job):
            with suppress(PlanLostError):
                for name in self.plans.read(job.job, row.plan).blobs:
                    remove_blob(published, name)
            yield
        # Those that were never taken, and the end, too.
        yield from remove_folder(published, stretch_folder(name_of(job.job)))
        yield from self.ledger.remove_stretches(job.job)

    def remove_results(self, job: str) -> Iterator[None]:
        """Remove the results, also those that no row names, and yield after each group."""
        yield from remove_folder(self.container("results"), f"{job}/")


def remove_folder(container: ContainerClient, folder: str) -> Iterator[None]:
    """Remove the blobs of a folder, and yield after each group."""
    with expecting_an_answer(f"remove the blobs in {container.container_name}/{folder}"):
        unchanged = MatchConditions.IfNotModified
        for page in container.list_blobs(name_starts_with=folder, results_per_page=MOST_OF_A_BATCH).by_page():
            if blobs := [{"name": blob.name, "etag": blob.etag, "match_condition": unchanged} for blob in page]:
                for reply in container.delete_blobs(*blobs, raise_on_any_failure=False):
                    if reply.status_code not in _REMOVED:
                        raise HttpResponseError(f"a blob of {folder} was not removed", response=reply)
                yield


def remove_blob(container: ContainerClient, name: str) -> None:
    """Remove a blob that may be gone."""
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
