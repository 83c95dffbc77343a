"""Merges the partials of neighbouring chunks in the order of their numbers.

Memory does not grow with the number of chunks: it holds one merged partial and a window of results. Rejected transactions may be as many as the transactions, so their stored lines are copied without decoding.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from azure.storage.blob import ContainerClient
from msgspec import Raw

from shared.decoding import decode
from shared.errors import FinishRefusedError, ResultRefusedError
from shared.ledger import ChunkRow, ChunkState, Totals
from shared.pipeline.outputs import Outputs, PartWriter
from shared.pipeline.result_reading import read_results
from shared.pipeline.results import read_partial
from shared.telemetry import contain
from shared.workloads import AnyWorkload, calling

#: Upper bound of the merged partial, in bytes of JSON; as objects it takes some ten times that.
MERGED_MOST: Final = 16 * 1024 * 1024
#: How the names of parts with rejected transactions begin.
REJECTED: Final = "rejected"


@dataclass(frozen=True, slots=True)
class Merged:
    """All partials merged, and the totals of all rows, added up again from the rows."""

    partial: Any
    totals: Totals


class Merger:
    """Merges partials of one revision of a job, by its workload."""

    def __init__(
        self, results: ContainerClient, outputs: Outputs, workload: AnyWorkload, *, merged_most: int = MERGED_MOST
    ) -> None:
        self._results, self._outputs, self._workload = results, outputs, workload
        self._totals, self._most = Totals(), merged_most
        #: Bytes of the merged partial at its last check, and of the partials merged since.
        self._checked_size = self._added = 0
        with calling(workload, "combine"):
            self.partial: Any = workload.combine([])

    def merge(self, rows: Iterable[ChunkRow], segment: int) -> Merged:
        """Merge the partials of the done rows, and write their rejected transactions under the number of the segment."""
        # A segment that is merged again writes the same names.
        rejected = PartWriter(self._outputs, f"{REJECTED}-{segment:06}")
        for result, rejections in read_results(self._results, self._take_done(rows)):
            self._add(read_partial(result, self._workload.partial), memoryview(result.partial).nbytes)
            for line in rejections:
                rejected.write_line(line)
        rejected.close()
        return Merged(self.partial, self._totals)

    def add(self, partial: Raw) -> None:
        """Merge the partial of a whole segment."""
        try:
            with contain():
                found = decode(partial, self._workload.partial)
        except (ValueError, RecursionError) as error:
            raise ResultRefusedError(
                f"the partial of a merged segment is not a {self._workload.partial.__name__}: {error}; was the type of "
                f"workload {self._workload.name!r} changed while the job ran? Then resume the job"
            ) from error
        self._add(found, memoryview(partial).nbytes)

    def _add(self, found: Any, size: int) -> None:
        with calling(self._workload, "merge"):
            self.partial = self._workload.merge(self.partial, found)
        self._check_size(size, self.partial)

    def _take_done(self, rows: Iterable[ChunkRow]) -> Iterator[ChunkRow]:
        for row in rows:
            self._totals += row.totals
            if row.state is ChunkState.DONE:
                yield row

    def _check_size(self, more: int, partial: Any) -> None:
        """Measure the merged partial once enough was added that it may be too large."""
        self._added += more
        if self._added < max(self._most - self._checked_size, self._most // 4):
            return
        self._checked_size, self._added = len(msgspec.json.encode(partial)), 0
        if self._checked_size > self._most:
            raise FinishRefusedError(
                f"the merged partial of workload {self._workload.name!r} is {self._checked_size} bytes as JSON, the "
                f"limit is {self._most}: split the job by account, or set SLUICE_MERGED_MIB on instances that have the "
                "memory, then resume the job"
            )
