"""Leases on empty blobs: one process at a time holds the slot or the task that a blob stands for."""

from contextlib import suppress
from typing import Final

from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, BlobLeaseClient, ContainerClient

#: The longest lease that ends by itself: a killed process blocks the others for no longer than this.
LEASE_SECONDS: Final = 60


class BlobLease:
    """A leased blob. Renew it in time, and release it at the end."""

    def __init__(self, blob: BlobClient, lease: BlobLeaseClient) -> None:
        self._blob, self._lease = blob, lease

    def renew(self) -> bool:
        """Renew the lease, and say whether this process still holds it for certain."""
        try:
            self._lease.renew()
        except AzureError:
            return False
        return True

    def remove(self) -> None:
        """Free the lease at once and delete its blob. If storage does not answer, the lease ends by itself."""
        with suppress(AzureError):
            self._blob.delete_blob(lease=self._lease)

    def release(self) -> None:
        """Free the lease at once. If storage does not answer, it ends by itself."""
        try:
            self._lease.release()
        except AzureError:
            return


def try_lease(container: ContainerClient, name: str) -> BlobLease | None:
    """Lease the blob, which its first use creates, or return None while another process holds it."""
    blob = container.get_blob_client(name)
    try:
        return _acquire(blob)
    except ResourceNotFoundError:
        try:
            blob.upload_blob(b"", overwrite=False)
        except HttpResponseError as refusal:
            # Another process created it, and may have leased it already.
            if refusal.status_code not in {409, 412}:
                raise
        return _acquire(blob)


def _acquire(blob: BlobClient) -> BlobLease | None:
    try:
        return BlobLease(blob, blob.acquire_lease(LEASE_SECONDS))
    except ResourceExistsError:
        return None
