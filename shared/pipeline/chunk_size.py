"""The transactions of a chunk: as the setting says, or as many as suit the job and the speed of its workload.

A chunk of any size has one message, one result and one row, so large chunks cost less per transaction. But one exception
parks a chunk, and one crash has a chunk run again. So small jobs have small chunks.

    transactions    100,000      400,000      1,000,000
    a chunk         2,000        8,000        8,000

The finisher of a large job notes how long its transactions took. The next large job of that workload has chunks of at
most 15 seconds by that note. It is a measurement, and may be lost: then the size follows from the job alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct

from shared.azure import OptimisticStore
from shared.decoding import decode
from shared.ledger import Job
from shared.workloads import Workloads, is_waiting

#: `auto` means chunks of so many transactions, in whole thousands.
SMALLEST: Final = 1_000
LARGEST: Final = 8_000
#: The chunks of a job, before either bound.
WANTED: Final = 50
#: The upper bound for a workload that waits, before its first measurement.
UNMEASURED: Final = 2_000
#: Seconds that a chunk may take. Waiting for the processor counts, so the bound is far above the work of a usual chunk.
LONGEST: Final = 15.0


class Speed(Struct, frozen=True, kw_only=True):
    """The time that the last large job of a workload took."""

    milliseconds: int
    items: int
    v: int = 1


@dataclass(frozen=True, slots=True)
class Speeds:
    """The measured speeds of workloads, one blob each."""

    store: Callable[[str], OptimisticStore]

    def read(self, workload: str) -> Speed | None:
        """Return the measurement. None: there is no measurement, or this version cannot read it."""
        found = self.store(workload).read()
        if found is None:
            return None
        try:
            speed = decode(found.value, Speed)
        except (ValueError, RecursionError):
            return None
        return speed if speed.v == 1 and speed.milliseconds > 0 < speed.items else None

    def note(self, job: Job) -> None:
        """Note the speed of a finished job, if it is large. Of two jobs that end at once, one is noted."""
        ran = job.totals.accepted.items + job.totals.rejected.items
        if not (_is_large(job.items) and ran):
            return
        store, speed = self.store(job.workload), Speed(milliseconds=max(1, job.milliseconds), items=ran)
        found = store.read()
        store.try_write(msgspec.json.encode(speed), None if found is None else found.etag)


def choose(items: int, speed: Speed | None, *, is_waiting: bool) -> int:
    """Return the chunk size for a job of so many transactions."""
    size = min(items // WANTED, LARGEST)
    if speed is not None:
        size = min(size, int(LONGEST * 1000 * speed.items / speed.milliseconds))
    elif is_waiting:
        size = min(size, UNMEASURED)
    return max(SMALLEST, size // SMALLEST * SMALLEST)


def _is_large(items: int) -> bool:
    """Check whether a measurement could change the chunk size of a job."""
    return choose(items, None, is_waiting=False) > SMALLEST


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """The chunk sizes of an installation."""

    #: The setting. None: `auto`.
    fixed: int | None
    speeds: Speeds
    workloads: Workloads

    @property
    def least(self) -> int:
        """The lower bound of every chunk size here. The app's frames end where chunks of this size end."""
        return self.fixed or SMALLEST

    def of(self, workload: str, items: int) -> int:
        """Return the chunk size for a new job. Only for a large one the speed of its workload is read."""
        if self.fixed is not None:
            return self.fixed
        if not _is_large(items):
            return SMALLEST
        return choose(items, self.speeds.read(workload), is_waiting=is_waiting(self.workloads.find(workload)))
