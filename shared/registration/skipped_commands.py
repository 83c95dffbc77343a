"""Counts the commands of orders that change no seats, and tells an operator of those that came too late."""

from collections import Counter
from threading import Lock

from shared.registration.selling import Skip
from shared.telemetry import Telemetry, events, metrics, tell


class SkippedCommands:
    """The skipped commands of one process. Several threads may use it."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry, self._lock = telemetry, Lock()
        self._untold: Counter[Skip] = Counter()

    def note(self, why: Skip) -> None:
        """Count one. A decision that is repeated counts again."""
        self._telemetry.add(metrics.SEATS_SKIPPED, why=why.value)
        # One that came twice is what a redelivery is for.
        if why is not Skip.KNOWN:
            with self._lock:
                self._untold[why] += 1

    def report(self) -> None:
        """Log how many came too late since the last time, in one line."""
        with self._lock:
            counts, self._untold = self._untold, Counter()
        if counts:
            tell(events.SEATS_LATE, late=counts[Skip.LATE], forgotten=counts[Skip.FORGOTTEN])
