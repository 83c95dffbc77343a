"""Slots in memory, which keep the contract of those in storage, and a bus that remembers permits."""

import threading

from shared.dequeue.permits import RENEW_AFTER

LEASE_SECONDS, MARGIN = 18, 5


class MemorySlots:
    """Leases by the clock of a test."""

    def __init__(self, clock):
        self._clock, self._lock = clock, threading.Lock()
        self._leases = {}
        self.requests = 0

    def lease(self, slot):
        """Lease a slot."""
        with self._lock:
            self.requests += 1
            if self._is_leased(slot):
                return None
            lease = MemoryLease(self, slot)
            self._leases[slot] = [lease, self._clock.monotonic() + LEASE_SECONDS]
            return lease

    def list_held(self):
        """Return the slots that somebody has."""
        with self._lock:
            self.requests += 1
            return frozenset(filter(self._is_leased, self._leases))

    def _is_leased(self, slot):
        _, until = self._leases.get(slot, (None, float("-inf")))
        return self._clock.monotonic() < until

    def extend(self, lease, until):
        """Change when a lease ends, if it is the one that storage knows; whether it was."""
        with self._lock:
            self.requests += 1
            known, _ = self._leases.get(lease.slot, (None, 0))
            if known is lease:
                self._leases[lease.slot][1] = until
            return known is lease


class MemoryLease:
    """One of them."""

    def __init__(self, slots, slot):
        self._slots, self.slot = slots, slot
        self._hold(slots._clock.monotonic())

    @property
    def is_held(self):
        """Whether it is certain that nobody else has it."""
        return self._slots._clock.monotonic() < self._until

    def renew(self):
        """Have it for as long again."""
        now = self._slots._clock.monotonic()
        if self.is_held and self._slots.extend(self, now + LEASE_SECONDS):
            self._hold(now)

    def release(self):
        """Let others have it."""
        self._slots.extend(self, self._slots._clock.monotonic())

    def _hold(self, now):
        self._until, self.due = now + LEASE_SECONDS - MARGIN, now + RENEW_AFTER


class MemoryBus:
    """Remembers permits instead of sending them."""

    def __init__(self):
        self.sent = []
        #: The seconds after which the last ones arrive.
        self.seconds = None

    def __call__(self, permits, seconds=0.0):
        """Remember them."""
        self.sent += permits
        self.seconds = seconds
        return len(permits)
