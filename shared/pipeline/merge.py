"""Merges the partials of a job's chunks in the order of their numbers, with a checkpoint per 256 chunks.

Memory does not grow with the number of chunks: it holds one merged partial and a window of results, bounded by bytes and
by number. Rejected transactions may be as many as the transactions, so their stored lines are copied without decoding.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
import zstandard
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import ContainerClient
from msgspec import Raw, Struct

from shared.azure import expecting_an_answer
from shared.errors import FinishRefusedError, ResultRefusedError
from shared.ledger import ChunkRow, ChunkState, Totals
from shared.pipeline.outputs import Outputs, PartWriter
from shared.pipeline.results import ChunkResult, read_partial, read_result
from shared.workloads import AnyWorkload, calling

#: Chunks between two checkpoints: upper bound of the chunks that the finisher after a crash reads again.
CHECKPOINT_EVERY: Final = 256
#: Upper bound of the merged partial, in bytes of JSON; as objects it takes some ten times that.
MERGED_MOST: Final = 16 * 1024 * 1024
#: Results in memory or being read, and the threads that read them.
WINDOW: Final = 16
READERS: Final = 8
#: Upper bound of their bytes together, estimated from their transactions. One result is read whether it fits or not.
WINDOW_BYTES: Final = 32 * 1024 * 1024
_RESULT_BYTES, _ITEM_BYTES = 16 * 1024, 192
_WRITTEN_BEFORE: Final = frozenset({409, 412})
_Item = TypeVar("_Item")


class _Checkpoint(Struct, frozen=True):
    """The merged partials of the first `merged` done chunks."""

    merged: int
    partial: Raw


@dataclass(frozen=True, slots=True)
class Merged:
    """All partials merged, and the totals of all rows, added up again from the rows."""

    partial: Any
    totals: Totals


class Merger:
    """Merges one revision of a job."""

    def __init__(  # noqa: PLR0913 - where from, where to, by what code and within what bounds
        self,
        results: ContainerClient,
        outputs: Outputs,
        workload: AnyWorkload,
        folder: str,
        *,
        checkpoint_every: int,
        merged_most: int,
    ) -> None:
        self._results, self._outputs, self._workload = results, outputs, workload
        self._folder, self._every = f"{folder}/merged/", checkpoint_every
        self._totals, self._most = Totals(), merged_most
        #: Bytes of the merged partial at its last check, and of the partials merged since.
        self._checked_size = self._added = 0

    def merge(self, rows: Iterable[ChunkRow], chunks: int) -> Merged:
        """Merge the partials of the done rows. `chunks` is the upper bound of their number."""
        # A job of few chunks has no checkpoints, so it saves the listing.
        start = self._last_checkpoint() if chunks > self._every else None
        merged = 0 if start is None else start.merged
        with calling(self._workload, "combine"):
            if start is None:
                partial = self._workload.combine([])
            else:
                partial = msgspec.json.decode(start.partial, type=self._workload.partial)
        for number, segment in enumerate(_slices(self._read_done(rows), self._every)):
            before = number * self._every
            if before + len(segment) <= merged:
                continue
            partial = self._merge_segment(number, segment, partial)
            if len(segment) == self._every:
                self._put_checkpoint(before + len(segment), partial)
        return Merged(partial, self._totals)

    def _read_done(self, rows: Iterable[ChunkRow]) -> Iterator[ChunkRow]:
        for row in rows:
            self._totals += row.totals
            if row.state is ChunkState.DONE:
                yield row

    def _merge_segment(self, number: int, segment: list[ChunkRow], partial: Any) -> Any:
        # Named after its segment, so that a finisher that begins at a checkpoint writes the same names.
        rejected = PartWriter(self._outputs, f"rejected-{number:06}")
        for result, rejections in self._read_all(segment):
            found = read_partial(result, self._workload.partial)
            with calling(self._workload, "merge"):
                partial = self._workload.merge(partial, found)
            self._check_size(memoryview(result.partial).nbytes, partial)
            for line in rejections:
                rejected.write_line(line)
        rejected.close()
        return partial

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

    def _read_all(self, segment: list[ChunkRow]) -> Iterator[tuple[ChunkResult, Iterator[bytes]]]:
        coming: deque[tuple[int, Future[tuple[ChunkResult, Iterator[bytes]]]]] = deque()
        held = 0
        with ThreadPoolExecutor(READERS) as pool:
            for row in segment:
                size = _RESULT_BYTES + row.totals.items * _ITEM_BYTES
                # The others are read while this one is merged.
                while coming and (len(coming) == WINDOW or held + size > WINDOW_BYTES):
                    first, one = coming.popleft()
                    yield one.result()
                    held -= first
                # Each in a copy of this context, so that its requests are counted for this job.
                coming.append((size, pool.submit(copy_context().run, self._read, row)))
                held += size
            while coming:
                yield coming.popleft()[1].result()

    def _read(self, row: ChunkRow) -> tuple[ChunkResult, Iterator[bytes]]:
        name = row.blob or ""
        with expecting_an_answer(f"read result {name!r}"):
            try:
                content = self._results.download_blob(name).readall()
            except ResourceNotFoundError as missing:
                raise ResultRefusedError(
                    f"result {name!r} is gone although chunk {row.chunk} of job {row.job!r} is done: restore the blob"
                ) from missing
        found = hashlib.sha256(content).hexdigest()
        if found != row.hash:
            raise ResultRefusedError(
                f"result {name!r} has hash {found}, the ledger says {row.hash}: restore the blob that was settled"
            )
        return read_result(content)

    def _last_checkpoint(self) -> _Checkpoint | None:
        with expecting_an_answer(f"find checkpoints in {self._folder!r}"):
            names = sorted(self._results.list_blob_names(name_starts_with=self._folder))
            if not names:
                return None
            content = self._results.download_blob(names[-1]).readall()
        return msgspec.json.decode(zstandard.ZstdDecompressor().decompress(content), type=_Checkpoint)

    def _put_checkpoint(self, merged: int, partial: Any) -> None:
        content = msgspec.json.encode(_Checkpoint(merged, Raw(msgspec.json.encode(partial))))
        packed = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(content)
        name = f"{self._folder}{merged:09}"
        with expecting_an_answer(f"write checkpoint {name!r}"):
            try:
                self._results.upload_blob(name, packed)
            except HttpResponseError as refusal:
                # Another finisher of this revision has merged the same chunks.
                if refusal.status_code not in _WRITTEN_BEFORE:
                    raise


def _slices(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    part: list[_Item] = []
    for item in items:
        part.append(item)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part
