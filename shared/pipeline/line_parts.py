"""Parts of an output with the lines of transactions: the frames of results side by side, still packed."""

import hashlib
from collections.abc import Iterator
from typing import Final

from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import ContainerClient

from shared.azure import expecting_an_answer
from shared.errors import ResultRefusedError
from shared.ledger import ChunkRow
from shared.pipeline.outputs import PART_BYTES, Outputs
from shared.pipeline.results import Opened
from shared.pipeline.streams import LINES, StreamFrame, StreamHead

#: Packed bytes of a part, and of one read. No process holds more of either.
PACKED_MOST: Final = 8 * 1024 * 1024


class LineParts:
    """Writes the lines of results, in their order, as numbered parts. The same results always make the same parts."""

    def __init__(self, results: ContainerClient, outputs: Outputs, segment: int) -> None:
        self._results, self._outputs, self._name = results, outputs, f"{LINES}-{segment:06}"
        self._number = 0
        self._begin()

    def add(self, opened: Opened) -> int:
        """Add the lines of one result, and return how many they are."""
        head = opened.result.streams[LINES]
        length = 0
        for frame, content in read_lines(self._results, opened):
            self._write(frame, content)
            length += len(content)
        if length != head.length:
            raise ResultRefusedError(
                f"the lines of chunk {opened.row.chunk} of job {opened.row.job!r} have {length} bytes in frames of "
                f"{head.length}: restore the blob that was settled, then resume the job"
            )
        return head.items

    def close(self) -> None:
        """Write the lines that were not written yet."""
        if self._items:
            self._outputs.put_part(f"{self._name}-{self._number:06}", b"".join(self._frames), self._items)
            self._number += 1
            self._begin()

    def _begin(self) -> None:
        self._frames: list[bytes] = []
        self._items = self._size = self._length = 0

    def _write(self, frame: StreamFrame, content: bytes) -> None:
        if self._size + frame.bytes > PART_BYTES or self._length + frame.length > PACKED_MOST:
            self.close()
        self._frames.append(content)
        self._items += frame.items
        self._size += frame.bytes
        self._length += frame.length


def read_lines(results: ContainerClient, opened: Opened) -> Iterator[tuple[StreamFrame, bytes]]:
    """Yield the frames of a result's lines, packed. Long lines were not read with the first frame of their result."""
    head, packed = opened.result.streams[LINES], opened.streams.get(LINES)
    return _read_long(results, opened.row, head) if packed is None else _cut(head.list_frames(), packed)


def _read_long(results: ContainerClient, row: ChunkRow, head: StreamHead) -> Iterator[tuple[StreamFrame, bytes]]:
    place, digest = (row.offset or 0) + (row.length or 0) - head.length, hashlib.sha256()
    for frames in group_frames(head.list_frames()):
        length = sum(frame.length for frame in frames)
        content = _read_range(results, row, place, length)
        digest.update(content)
        place += length
        yield from _cut(frames, content)
    if digest.hexdigest() != head.sha256:
        raise ResultRefusedError(
            f"the lines of chunk {row.chunk} of job {row.job!r} do not have the hash in the head of result "
            f"{row.blob!r}: restore the blob that was settled, then resume the job"
        )


def _read_range(results: ContainerClient, row: ChunkRow, place: int, length: int) -> bytes:
    name = row.blob or ""
    with expecting_an_answer(f"read lines of result {name!r}"):
        try:
            content: bytes = results.download_blob(name, offset=place, length=length).readall()
        except ResourceNotFoundError as missing:
            raise ResultRefusedError(
                f"result {name!r} is gone although chunk {row.chunk} of job {row.job!r} is done: restore the blob"
            ) from missing
    return content


def group_frames(frames: list[StreamFrame]) -> Iterator[list[StreamFrame]]:
    """Yield frames that one request reads, at most so many bytes of them."""
    group: list[StreamFrame] = []
    held = 0
    for frame in frames:
        if group and held + frame.length > PACKED_MOST:
            yield group
            group, held = [], 0
        group.append(frame)
        held += frame.length
    yield group


def _cut(frames: list[StreamFrame], packed: bytes) -> Iterator[tuple[StreamFrame, bytes]]:
    place = 0
    for frame in frames:
        yield frame, packed[place : place + frame.length]
        place += frame.length
