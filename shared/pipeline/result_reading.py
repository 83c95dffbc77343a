"""Reads the results of chunks in the order of their rows: several at a time, and a window of them at most.

A result lies in a blob of its own, or with others that one transaction credited, by the numbers of their chunks. So of
such a blob, one ranged read brings all the results that a window needs.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, NamedTuple

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.errors import ResultRefusedError
from shared.ledger import ChunkRow
from shared.pipeline.results import ChunkResult, hash_result, read_result, unpack_result

#: Results of a window that lie in blobs of their own, in memory or being read, and the threads that read them.
WINDOW: Final = 16
READERS: Final = 8
#: Upper bound of their bytes together, estimated from their transactions. One result is read whether it fits or not.
WINDOW_BYTES: Final = 32 * 1024 * 1024
#: Upper bound of the packed bytes that are read from the blobs of several results at a time.
SLICES_MOST: Final = 8 * 1024 * 1024
_RESULT_BYTES, _ITEM_BYTES = 16 * 1024, 192


class _Slice(NamedTuple):
    """Bytes of one blob that are being read, and where they begin in it."""

    offset: int
    content: Future[bytes]


def read_results(container: ContainerClient, rows: Iterable[ChunkRow]) -> Iterator[tuple[ChunkResult, Iterator[bytes]]]:
    """Yield the result of each row, and the lines of its rejections."""
    with ThreadPoolExecutor(READERS) as pool:
        for window in cut_windows(rows):
            yield from _read_window(container, pool, window)


def cut_windows(rows: Iterable[ChunkRow]) -> Iterator[list[ChunkRow]]:
    """Cut rows into windows, by the packed bytes of those results that lie with others."""
    window: list[ChunkRow] = []
    held = 0
    for row in rows:
        size = 0 if row.offset is None else row.length or 0
        if window and held + size > SLICES_MOST:
            yield window
            window, held = [], 0
        window.append(row)
        held += size
    if window:
        yield window


def _read_window(
    container: ContainerClient, pool: ThreadPoolExecutor, window: Sequence[ChunkRow]
) -> Iterator[tuple[ChunkResult, Iterator[bytes]]]:
    spans: dict[str, tuple[int, int]] = {}
    for row in window:
        if row.offset is not None:
            begin, end = spans.get(row.blob or "", (row.offset, 0))
            spans[row.blob or ""] = min(begin, row.offset), max(end, row.offset + (row.length or 0))
    slices: dict[str, _Slice] = {}

    def start(row: ChunkRow) -> _Slice:
        name = row.blob or ""
        if name in slices:
            return slices[name]
        begin, end = spans.get(name, (0, None))
        # In a copy of this context, so that the request is counted for this job.
        found = _Slice(begin, pool.submit(copy_context().run, _read, container, row, begin, end))
        return slices.setdefault(name, found) if name in spans else found

    coming: deque[tuple[int, ChunkRow, _Slice]] = deque()
    held = 0
    for row in window:
        size = _RESULT_BYTES + row.totals.items * _ITEM_BYTES
        # The others are read while this one is merged.
        while coming and (len(coming) == WINDOW or held + size > WINDOW_BYTES):
            first, before, slice_ = coming.popleft()
            yield _open(before, slice_)
            held -= first
        coming.append((size, row, start(row)))
        held += size
    while coming:
        _, row, slice_ = coming.popleft()
        yield _open(row, slice_)


def _read(container: ContainerClient, row: ChunkRow, begin: int, end: int | None) -> bytes:
    name = row.blob or ""
    with expecting_an_answer(f"read result {name!r}"):
        try:
            if end is None:
                whole: bytes = container.download_blob(name).readall()
                return whole
            part: bytes = container.download_blob(name, offset=begin, length=end - begin).readall()
        except ResourceNotFoundError as missing:
            raise ResultRefusedError(
                f"result {name!r} is gone although chunk {row.chunk} of job {row.job!r} is done: restore the blob"
            ) from missing
    return part


def _open(row: ChunkRow, slice_: _Slice) -> tuple[ChunkResult, Iterator[bytes]]:
    stored, name = slice_.content.result(), row.blob or ""
    if row.offset is not None:
        begin = row.offset - slice_.offset
        stored = stored[begin : begin + (row.length or 0)]
    content = unpack_result(name, stored)
    found = hash_result(content)
    if found != row.hash:
        raise ResultRefusedError(
            f"result {name!r} of chunk {row.chunk} has hash {found}, the ledger says {row.hash}: restore the blob that "
            "was settled"
        )
    return read_result(content)
