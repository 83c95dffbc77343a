"""Lots of limits in memory, which keep the contract of those in storage."""

from tests.dequeue.memory_slots import MemorySlots


class MemoryLots:
    """Leases by the clock of a test."""

    def __init__(self, clock):
        self._slots = MemorySlots(clock)

    @property
    def requests(self):
        """How many there were."""
        return self._slots.requests

    def lease_lot(self, limit, number):
        """Lease one."""
        return self._slots.lease((limit, number))

    def list_leased_lots(self, limit):
        """Return the leased ones of a limit."""
        return frozenset(number for name, number in self._slots.list_held() if name == limit)
