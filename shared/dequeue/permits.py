"""The slots of the fleet: each is the right to run a few dequeue tasks, held by one instance at a time.

Slot 0 stands for the first tasks of the fleet, slot 1 for the next ones, and so on. An instance runs the tasks of a
slot only while it holds the slot's lease. So permits may be doubled, forged or late: no task runs twice at a time, and
all tasks together never exceed the cap.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol

from azure.storage.blob import ContainerClient

from shared.azure import LEASE_SECONDS, BlobLease, expecting_an_answer, try_lease
from shared.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan:
    """The tasks allowed over all instances, and their division into slots. Makes no request."""

    #: Tasks that a depth calls for.
    rule: Callable[[int], int]
    #: Tasks that may run now.
    cap: Callable[[], int]
    #: Tasks of one slot.
    tasks: int

    def count_wanted(self, depth: int) -> int:
        """Return how many tasks a depth calls for: at most the cap, and at most one per message."""
        return max(0, min(self.rule(depth), self.cap(), depth))

    def slots(self, depth: int) -> int:
        """Return how many slots hold the tasks that a depth calls for."""
        return self.count_slots(self.count_wanted(depth))

    def count_slots(self, tasks: int) -> int:
        """Return how many slots hold so many tasks."""
        return -(-tasks // self.tasks)

    def allowance(self, slot: int) -> int:
        """Return how many tasks of this slot may run now."""
        return self.share(slot, self.cap())

    def share(self, slot: int, cap: int) -> int:
        """Return how many tasks of this slot may run under a cap, which all slots together share exactly."""
        return min(max(cap - slot * self.tasks, 0), self.tasks)


CONTAINER: Final = "permits"
#: Seconds until a lease is renewed: two renewals may fail before the lease is given up.
RENEW_AFTER: Final = 20.0
#: Seconds between two renewals while they fail.
RENEW_AGAIN_AFTER: Final = 5.0
#: A holder stops this many seconds before its lease can end: by then no receive that it began is still under way.
MARGIN: Final = 15.0


class SlotLease(Protocol):
    """The right to run the tasks of one slot."""

    @property
    def is_held(self) -> bool:
        """True while no other process can hold the lease."""
        ...

    @property
    def due(self) -> float:
        """The moment of the next renewal, in the clock's monotonic seconds."""
        ...

    def renew(self) -> None:
        """Extend the lease by its full length. Makes one request."""
        ...

    def release(self) -> None:
        """Free the slot for others. Makes one request."""
        ...


class Slots(Protocol):
    """All slots of a fleet."""

    def lease(self, slot: int) -> SlotLease | None:
        """Lease a slot, or return None if it is leased. Makes one request, three at the very first use of a slot."""
        ...

    def list_held(self) -> frozenset[int]:
        """Return the leased slots. Makes one request."""
        ...


class BlobSlots:
    """Slots as leases on blobs. Storage alone decides when they end, so no clocks have to agree."""

    def __init__(self, container: ContainerClient, clock: Clock) -> None:
        self._container, self._clock = container, clock

    def lease(self, slot: int) -> SlotLease | None:
        """Lease a slot, or return None if it is leased."""
        # Read before the request: storage counts the lease from some moment after it.
        requested_at = self._clock.monotonic()
        with expecting_an_answer(f"lease slot {slot} of the dequeue tasks"):
            lease = try_lease(self._container, _name(slot))
        return None if lease is None else _Lease(lease, self._clock.monotonic, requested_at)

    def list_held(self) -> frozenset[int]:
        """Return the leased slots."""
        with expecting_an_answer("list the slots of the dequeue tasks"):
            leased = [blob.name for blob in self._container.list_blobs() if blob.lease.state == "leased"]
        return frozenset(int(name) for name in leased if name.isdecimal())


class _Lease:
    """A lease that counts as held while it cannot have ended, even if its last renewal had no reply."""

    def __init__(self, lease: BlobLease, monotonic: Callable[[], float], since: float) -> None:
        self._lease, self._monotonic = lease, monotonic
        self._hold(since)

    @property
    def is_held(self) -> bool:
        """True while no other process can hold the lease."""
        return self._monotonic() < self._until

    def renew(self) -> None:
        """Extend the lease by its full length. A lease that ended meanwhile is not taken again."""
        requested_at = self._monotonic()
        if requested_at >= self._until:
            self.due = inf
        elif self._lease.renew():
            self._hold(requested_at)
        else:
            self.due = requested_at + RENEW_AGAIN_AFTER

    def release(self) -> None:
        """Free the slot for others."""
        self._lease.release()

    def _hold(self, since: float) -> None:
        self._until, self.due = since + LEASE_SECONDS - MARGIN, since + RENEW_AFTER


def _name(slot: int) -> str:
    return f"{slot:06}"
