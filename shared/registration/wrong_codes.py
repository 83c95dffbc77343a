"""Counts wrong access codes, and tells an operator when a caller tries many."""

from threading import Lock
from typing import Final

from shared.clock import Clock
from shared.telemetry import Telemetry, events, metrics, tell

#: Wrong codes in a minute at one instance that are no longer the mistakes of customers.
MANY: Final = 100
_WITHIN: Final = 60.0


class WrongCodes:
    """The wrong codes of one process, minute by minute."""

    def __init__(self, clock: Clock, telemetry: Telemetry) -> None:
        self._clock, self._telemetry, self._lock = clock, telemetry, Lock()
        self._began, self._count = clock.monotonic(), 0

    def note(self) -> None:
        """Count one. The hundredth of a minute is logged, once."""
        self._telemetry.add(metrics.WRONG_CODES)
        now = self._clock.monotonic()
        with self._lock:
            if now - self._began >= _WITHIN:
                self._began, self._count = now, 0
            self._count += 1
            is_many = self._count == MANY
        if is_many:
            tell(events.CODES_TRIED, wrong=MANY, seconds=round(now - self._began))
