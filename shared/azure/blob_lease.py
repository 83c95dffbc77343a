"""Leases on blobs of no content: storage lets one process at a time have what the blob stands for."""

from typing import Final

from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, BlobLeaseClient, ContainerClient

#: The longest lease that ends by itself: a process that was killed blocks nobody for longer.
LEASE_SECONDS: Final = 60


class BlobLease:
    """A leased blob; renew it in time and release it at the end."""

    def __init__(self, lease: BlobLeaseClient) -> None:
        self._lease = lease

    def renew(self) -> bool:
        """Whether it is known to be still ours."""
        try:
            self._lease.renew()
        except AzureError:
            return False
        return True

    def release(self) -> None:
        """Let the next process have it at once; if storage is away it ends by itself."""
        try:
            self._lease.release()
        except AzureError:
            return


def try_lease(container: ContainerClient, name: str) -> BlobLease | None:
    """Lease the blob, which is made at its first use; None when another process has it."""
    blob = container.get_blob_client(name)
    try:
        return BlobLease(blob.acquire_lease(LEASE_SECONDS))
    except ResourceNotFoundError:
        try:
            blob.upload_blob(b"", overwrite=False)
        except HttpResponseError as refusal:
            # Another process made it, and may have leased it already.
            if refusal.status_code not in {409, 412}:
                raise
        return _lease_made(blob)
    except ResourceExistsError:
        return None


def _lease_made(blob: BlobClient) -> BlobLease | None:
    try:
        return BlobLease(blob.acquire_lease(LEASE_SECONDS))
    except ResourceExistsError:
        return None
