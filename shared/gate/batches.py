"""Starts entries of a gate that may start, a hundred at a time: one preparation, one wake-up and one deletion for all.

The order for each batch: the pointers of its jobs, the jobs and messages themselves, then the held rows go. A crash in
between leaves held rows, which the next release finds. Its jobs that have started already make one request each.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from shared.clock import Clock
from shared.errors import SluiceError
from shared.gate.held import HeldEntry
from shared.gate.held_work import HeldWork, Startable
from shared.gate.receipts import NO_MARK, OneMark
from shared.gate.state import Reading
from shared.telemetry import describe_error, events, tell

#: Rows dispatched at a time. Fewer than the ten connections that the library keeps for one service.
PARALLEL: Final = 8
#: Rows between two wake-ups and two deletions: a table transaction takes no more. The first batch is small, so that the
#: first tasks start at once.
BATCH: Final = 100


class Jobs(Protocol):
    """Starts the entries that are put on no queue: the app's own jobs."""

    def is_job(self, entry: HeldEntry, /) -> bool:
        """Return True if the entry is a job."""
        ...

    def begin(self, entries: Sequence[HeldEntry], coming: Sequence[HeldEntry], /) -> AbstractContextManager[None]:
        """Enter around the start of several jobs, the first of `coming`."""
        ...

    def carry_out(self, entry: HeldEntry, gate: Reading, until: float, mark: OneMark, /) -> bool:
        """Start the job, which this reading allows. Return False if the time was up before all of it was dispatched.

        Its first chunk message gets the mark, unless another one has it.
        """
        ...


class HeldFate(Enum):
    """The outcome of one release for an entry that may start."""

    PUT = "put"
    FAILED = "failed"
    #: The time was up.
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Started:
    """The outcome of a list of entries."""

    put: int = 0
    failed: int = 0
    #: The smallest id of those for which there was no time. Empty if nothing was left.
    left: str = ""


class Batches:
    """Starts lists of entries. One per process."""

    def __init__(self, work: HeldWork, jobs: Jobs, clock: Clock, parallel: int = PARALLEL) -> None:
        self._work, self._jobs, self._clock, self._parallel = work, jobs, clock, parallel

    def start(self, due: Sequence[Startable], until: float, mark: OneMark) -> Started:
        """Start them in this order. After `until`, in the clock's monotonic seconds, no further one is begun."""
        fates: Counter[HeldFate] = Counter()
        left: list[str] = []
        with ThreadPoolExecutor(self._parallel) as pool:
            for batch, coming in self._split(due):
                for one, fate in zip(batch, self._start_batch(batch, coming, until, mark, pool), strict=True):
                    fates[fate] += 1
                    left += [one.entry.id] if fate is HeldFate.LEFT else []
        return Started(fates[HeldFate.PUT], fates[HeldFate.FAILED], min(left, default=""))

    def _split(self, due: Sequence[Startable]) -> Iterator[tuple[Sequence[Startable], Sequence[Startable]]]:
        begin, end = 0, self._parallel
        while begin < len(due):
            yield due[begin:end], due[begin:]
            begin, end = end, end + BATCH

    def _start_batch(
        self,
        batch: Sequence[Startable],
        coming: Sequence[Startable],
        until: float,
        mark: OneMark,
        pool: ThreadPoolExecutor,
    ) -> Sequence[HeldFate]:
        if self._clock.monotonic() >= until:
            return [HeldFate.LEFT] * len(batch)
        try:
            with self._beginning(batch, coming):
                together = [one.entry for one in batch if self._work.sends(one.entry)]
                self._work.send(together)
                # Each in a copy of this context, so that its requests are counted for their cause.
                running = [pool.submit(copy_context().run, self._try_start, one, until, mark) for one in batch]
                fates = [one.result() for one in running]
            # Put before the rows are deleted: a crash in between puts them again, while the other order would lose them.
            self._work.forget_all([one.entry for one, fate in zip(batch, fates, strict=True) if fate is HeldFate.PUT])
        except SluiceError as error:
            _tell_undispatched(batch[0].entry, error)
            return [HeldFate.FAILED] * len(batch)
        return fates

    def _beginning(self, batch: Sequence[Startable], coming: Sequence[Startable]) -> AbstractContextManager[None]:
        jobs = [one.entry for one in batch if self._jobs.is_job(one.entry)]
        if not jobs:
            return nullcontext()
        return self._jobs.begin(jobs, [one.entry for one in coming if self._jobs.is_job(one.entry)])

    def _try_start(self, one: Startable, until: float, mark: OneMark) -> HeldFate:
        if self._clock.monotonic() >= until:
            return HeldFate.LEFT
        # What was held after the opening does not wait for it.
        mark = mark if one.entry.epoch < one.gate.epoch else NO_MARK
        try:
            if self._work.sends(one.entry):
                # Sent before, with the others of its batch.
                return HeldFate.PUT
            if not self._jobs.is_job(one.entry):
                self._work.put(one.entry)
            elif not self._jobs.carry_out(one.entry, one.gate, until, mark):
                return HeldFate.LEFT
        except SluiceError as error:
            _tell_undispatched(one.entry, error)
            return HeldFate.FAILED
        return HeldFate.PUT


def _tell_undispatched(entry: HeldEntry, error: SluiceError) -> None:
    tell(events.HELD_UNDISPATCHED, gate=entry.gate, entry=entry.id, queue=entry.queue, error=describe_error(error))
