"""Who runs the tasks of a slot: whoever holds its lease, and nobody else at the same time.

Slots of permits, each the right to run a few tasks. Pure: who may run how many follows from numbers alone.

Slot 0 stands for the first tasks of the fleet, slot 1 for the next ones, and so on; whoever runs the tasks of a slot
holds its lease. So however many permits there are, doubled, forged or late, no task runs twice at a time, and all
together are never more than the cap.
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
    """How many tasks there may be over all instances, and how they are shared out into slots."""

    #: Tasks that a depth calls for.
    rule: Callable[[int], int]
    #: Tasks that may run now.
    cap: Callable[[], int]
    #: Tasks of one slot.
    tasks: int

    def count_wanted(self, depth: int) -> int:
        """Return how many tasks a depth calls for: no more than may run, no more than there are messages."""
        return max(0, min(self.rule(depth), self.cap(), depth))

    def slots(self, depth: int) -> int:
        """Return how many slots that takes."""
        return -(-self.count_wanted(depth) // self.tasks)

    def allowance(self, slot: int) -> int:
        """Return how many tasks of this slot may run now: all slots together have the cap."""
        return min(max(self.cap() - slot * self.tasks, 0), self.tasks)


CONTAINER: Final = "permits"
#: Seconds until a lease is renewed: a renewal may fail, and another one, before it is given up.
RENEW_AFTER: Final = 20.0
#: Seconds between two renewals while they fail.
RENEW_AGAIN_AFTER: Final = 5.0
#: A holder stops so many seconds before others may have its lease: no receive that it began is still on its way then.
MARGIN: Final = 15.0


class SlotLease(Protocol):
    """The right to run the tasks of one slot."""

    @property
    def is_held(self) -> bool:
        """Whether it is certain that nobody else has it."""
        ...

    @property
    def due(self) -> float:
        """When it must be renewed, in the clock's monotonic seconds."""
        ...

    def renew(self) -> None:
        """Have it for as long again; one request."""
        ...

    def release(self) -> None:
        """Let others have it; one request."""
        ...


class Slots(Protocol):
    """All slots of a fleet."""

    def lease(self, slot: int) -> SlotLease | None:
        """Lease a slot; None when somebody has it. One request, three at the first use of a slot ever."""
        ...

    def list_held(self) -> frozenset[int]:
        """Return the slots that somebody has; one request."""
        ...


class BlobSlots:
    """Slots as leases on blobs: storage alone says when they end, so no clocks have to agree."""

    def __init__(self, container: ContainerClient, clock: Clock) -> None:
        self._container, self._clock = container, clock

    def lease(self, slot: int) -> SlotLease | None:
        """Lease a slot; None when somebody has it."""
        asked = self._clock.monotonic()
        with expecting_an_answer(f"lease slot {slot} of the dequeue tasks"):
            lease = try_lease(self._container, _name(slot))
        return None if lease is None else _Lease(lease, self._clock.monotonic, asked)

    def list_held(self) -> frozenset[int]:
        """Return the slots that somebody has."""
        with expecting_an_answer("list the slots of the dequeue tasks"):
            leased = [blob.name for blob in self._container.list_blobs() if blob.lease.state == "leased"]
        return frozenset(int(name) for name in leased if name.isdecimal())


class _Lease:
    """A lease that counts as held while it cannot have ended, whatever became of its last renewal."""

    def __init__(self, lease: BlobLease, monotonic: Callable[[], float], since: float) -> None:
        self._lease, self._monotonic = lease, monotonic
        self._hold(since)

    @property
    def is_held(self) -> bool:
        """Whether it is certain that nobody else has it."""
        return self._monotonic() < self._until

    def renew(self) -> None:
        """Have it for as long again; one that ended meanwhile is not taken up again."""
        asked = self._monotonic()
        if asked >= self._until:
            self.due = inf
        elif self._lease.renew():
            self._hold(asked)
        else:
            self.due = asked + RENEW_AGAIN_AFTER

    def release(self) -> None:
        """Let others have it."""
        self._lease.release()

    def _hold(self, since: float) -> None:
        self._until, self.due = since + LEASE_SECONDS - MARGIN, since + RENEW_AFTER


def _name(slot: int) -> str:
    return f"{slot:06}"
