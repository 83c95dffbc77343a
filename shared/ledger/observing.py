"""A job's results as they land, for subscribers in any worker process: on_next for each chunk, then one end.

The ledger is the source: what it says was settled, once a chunk, whatever was delivered twice on the way. It is looked
at, not pushed: one request a look while nothing changes, and the rows only when something did.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Final, Protocol

from shared.clock import Clock, SystemClock
from shared.errors import JobFailedError, LedgerError
from shared.ledger.ledger import Ledger
from shared.ledger.records import ChunkRow, Job, JobState
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import place, told

#: Seconds between two looks.
LOOK_EVERY: Final = 2.5
_WELL: Final = frozenset({JobState.COMPLETE, JobState.COMPLETED_WITH_PARKED})
_BADLY: Final = frozenset({JobState.UNBALANCED, JobState.PAUSED, JobState.BURIED})


class Observer(Protocol):
    """What a subscriber is told; after on_error or on_completed it is told nothing more."""

    def on_next(self, row: ChunkRow, /) -> None:
        """Hear of a chunk that ended, done or parked; a parked one that is replayed comes again as done."""
        ...

    def on_error(self, error: Exception, /) -> None:
        """Hear that the job did not end well, or that it cannot be looked at."""
        ...

    def on_completed(self, job: Job, /) -> None:
        """Hear that the job is complete, perhaps with parked transactions."""
        ...


@dataclass(slots=True)
class _Seen:
    """What the subscribers were told."""

    job_etag: str = ""
    rows: dict[int, str] = field(default_factory=dict)


class ObservedJob:
    """One job, observed from one process; `run` ends with it."""

    def __init__(
        self, ledger: Ledger, job: str, *, clock: Clock | None = None, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._ledger, self._job, self._pause = ledger, job, pause
        self._clock = clock or SystemClock()
        self._observers: list[Observer] = []

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Tell this observer from now on; returns what ends it."""
        self._observers.append(observer)
        return lambda: self._drop(observer)

    def run(self, timeout: float | None = None) -> JobState | None:
        """Tell the subscribers until the job has ended; None when the time was up first."""
        end = None if timeout is None else self._clock.monotonic() + timeout
        seen = _Seen()
        while True:
            job = self._looked_at_or_failed(seen)
            if job is not None and job.state in _WELL | _BADLY:
                self._tell_end(job)
                return job.state
            if end is not None and self._clock.monotonic() >= end:
                return None
            self._pause(LOOK_EVERY)

    def _looked_at_or_failed(self, seen: _Seen) -> Job | None:
        try:
            return self._looked_at(seen)
        except LedgerError as error:
            self._tell(methodcaller("on_error", error))
            raise

    def _looked_at(self, seen: _Seen) -> Job | None:
        job = self._ledger.read(self._job)
        if job is not None and job.etag != seen.job_etag:
            # The rows are read after the job: whatever it counts is there.
            for row in news(seen.rows, self._ledger.rows(self._job)):
                self._tell(methodcaller("on_next", row))
                seen.rows[row.chunk] = row.etag
            seen.job_etag = job.etag
        return job

    def _tell_end(self, job: Job) -> None:
        if job.state in _WELL:
            self._tell(methodcaller("on_completed", job))
            return
        why = job.problem or "look at `sluice jobs show`"
        self._tell(methodcaller("on_error", JobFailedError(f"job {job.job!r} is {job.state.value}: {why}")))

    def _tell(self, what: Callable[[Observer], None]) -> None:
        for observer in tuple(self._observers):
            try:
                what(observer)
            except Exception as error:  # noqa: BLE001 - whatever a subscriber raises is its own, and is logged
                tell(events.OBSERVER_FAILED, job=self._job, error=told(error), at=place(error))
                self._drop(observer)

    def _drop(self, observer: Observer) -> None:
        if observer in self._observers:
            self._observers.remove(observer)


def news(seen: dict[int, str], rows: Iterable[ChunkRow]) -> Iterator[ChunkRow]:
    """Yield the rows that were not seen as they are now."""
    return (row for row in rows if seen.get(row.chunk) != row.etag)
