"""One subscription of the waiters' pool, leased so that no two processes share it: a shared one would wake only one."""

import os
from collections.abc import Sequence
from typing import Final

from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, BlobLeaseClient, ContainerClient

from shared.topology import WAITER_SUBSCRIPTIONS

#: The longest lease that ends by itself: a process that was killed blocks its subscription no longer.
LEASE_SECONDS: Final = 60
#: One renewal may fail before the lease ends.
RENEW_SECONDS: Final = 25.0
#: Gates begin with a letter or a digit, so no gate is called like this.
FOLDER: Final = "_listeners"
POOL: Final = tuple(f"waiters-{number:02}" for number in range(WAITER_SUBSCRIPTIONS))


class SubscriptionLease:
    """A leased subscription; renew it in time and release it at the end."""

    def __init__(self, subscription: str, lease: BlobLeaseClient) -> None:
        self.subscription, self._lease = subscription, lease

    def renew(self) -> bool:
        """Whether it is still ours."""
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


def lease_one(container: ContainerClient, pool: Sequence[str] = POOL) -> SubscriptionLease | None:
    """Return the first subscription of the pool that is free, None when all are taken."""
    # Processes begin at different places, so that sixteen of them do not ask for the same sixteen in the same order.
    first = os.getpid() % len(pool)
    for subscription in (*pool[first:], *pool[:first]):
        lease = _try_lease(container, subscription)
        if lease:
            return SubscriptionLease(subscription, lease)
    return None


def _try_lease(container: ContainerClient, subscription: str) -> BlobLeaseClient | None:
    blob = container.get_blob_client(f"{FOLDER}/{subscription}")
    try:
        return blob.acquire_lease(LEASE_SECONDS)
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


def _lease_made(blob: BlobClient) -> BlobLeaseClient | None:
    try:
        return blob.acquire_lease(LEASE_SECONDS)
    except ResourceExistsError:
        return None
