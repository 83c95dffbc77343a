"""The clock that is handed to all code. Only this module of `shared` reads the operating system's time."""

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

    def of_reply(self, named: datetime | None) -> datetime:
        """Return the time that a reply of storage named, by its one clock for all instances. None: it named no time."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the time of day in UTC, aware."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an unknown moment, never fewer than before."""
        return time.monotonic()

    def of_reply(self, named: datetime | None) -> datetime:
        """Return the time that a reply named, or this machine's time if it named none."""
        return named or self.now()
