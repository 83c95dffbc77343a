"""Projectors: messages of events become rows of views. They have no sender, so that a replay can send no command."""

from collections.abc import Iterable

from shared.clock import Clock
from shared.messaging import EventRange
from shared.readmodels.pointers import STANDS_AFTER, KeptPointer, ModelPointer
from shared.readmodels.view_writer import ViewCounts, ViewWriter
from shared.telemetry import events, tell


class Projector:
    """Projects the events of one model's homes, into every version that the model's pointer names."""

    def __init__(self, pointer: KeptPointer, writer: ViewWriter, clock: Clock) -> None:
        self._pointer, self._writer, self._clock = pointer, writer, clock
        #: From when on a migration that stands still may be logged again.
        self._log_from = clock.now()

    def project(self, ranges: Iterable[EventRange]) -> list[ViewCounts]:
        """Bring the rows of these homes up to the ranges, in each version. Afterwards their message may be completed.

        A migration begins with a pointer that names a second version, and scans the log 10 seconds later. An event must
        be in that scan, or be written to both versions. So the pointer of this call is at most 5 seconds old before the
        writes. If it is older after them, it is read again, and a version that it names now gets the events too. Hence
        an event that only one version got was in the log less than 5 seconds after the pointer was written.
        """
        ranges = list(ranges)
        written = []
        done = set()
        while True:
            pointer = self._pointer.get()
            self._log_standing(pointer)
            for place in pointer.places:
                if place not in done:
                    written.append(self._writer.write(*place, ranges))
                    done.add(place)
            if self._pointer.is_young():
                return written

    def _log_standing(self, pointer: ModelPointer) -> None:
        """Log a migration that stands still, once in half an hour. Its killed command cannot."""
        now = self._clock.now()
        silent = pointer.stands(now)
        if silent is not None and now >= self._log_from:
            self._log_from = now + STANDS_AFTER
            tell(
                events.MIGRATION_STANDS,
                model=pointer.model,
                phase=str(pointer.phase),
                target=pointer.target,
                silent_seconds=round(silent.total_seconds()),
            )
