"""Time, handed in: nothing in `shared` asks the operating system for it but this file."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day, which may jump, and a time that only moves forward."""

    def now(self) -> datetime:
        """Return the time of day in UTC, aware."""
        ...

    def monotonic(self) -> float:
        """Return seconds since an unknown moment, never fewer than before."""
        ...

    def of_reply(self, told: datetime | None) -> datetime:
        """Return the time of a reply of storage, whose clock is the same for all instances; None: it says no time."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the time of day in UTC, aware."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an unknown moment, never fewer than before."""
        return time.monotonic()

    def of_reply(self, told: datetime | None) -> datetime:
        """Return the time that storage told, or this machine's where it told none."""
        return told or self.now()
