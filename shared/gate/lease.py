"""One subscription of the waiters' pool, leased so that no two processes share it: a shared one would wake only one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from azure.storage.blob import ContainerClient

from shared.blob_lease import BlobLease, try_lease
from shared.topology import WAITER_SUBSCRIPTIONS

#: One renewal may fail before the lease ends.
RENEW_SECONDS: Final = 25.0
#: Gates begin with a letter or a digit, so no gate is called like this.
FOLDER: Final = "_listeners"
POOL: Final = tuple(f"waiters-{number:02}" for number in range(WAITER_SUBSCRIPTIONS))


@dataclass(frozen=True, slots=True)
class SubscriptionLease:
    """A leased subscription; renew the lease in time and release it at the end."""

    subscription: str
    lease: BlobLease


def lease_one(container: ContainerClient, pool: Sequence[str] = POOL) -> SubscriptionLease | None:
    """Return the first subscription of the pool that is free, None when all are taken."""
    # Processes begin at different places, so that sixteen of them do not ask for the same sixteen in the same order.
    first = os.getpid() % len(pool)
    for subscription in (*pool[first:], *pool[:first]):
        if lease := try_lease(container, f"{FOLDER}/{subscription}"):
            return SubscriptionLease(subscription, lease)
    return None
