"""Reads the lines of one chunk: one ranged read, each frame verified when its turn comes."""

import base64
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from shared.memory import Memory
from shared.payload.compression import Codec, expanded_as_said, expanded_at_most
from shared.payload.frames import Frame
from shared.payload.limits import Limits
from shared.payload.reading import read_frame
from shared.payload.reasons import Reason, refuse
from shared.payload.store import ANY_VERSION, StoredBlob
from shared.payload.stores import PayloadStores
from shared.pipeline.messages import Chunk
from shared.pipeline.weights import of_chunk


class ReadChunk(Protocol):
    """Gives the lines of a chunk; raises RefusedError for what is wrong with its bytes, now and for ever."""

    def __call__(self, chunk: Chunk, /) -> AbstractContextManager[Iterator[list[bytes]]]:
        """Read them, a part at a time, and have memory for what they come to until the end."""
        ...


class PayloadReader:
    """ReadChunk over the containers of payloads, or over the bytes in the message."""

    def __init__(self, stores: PayloadStores, memory: Memory, limits: Limits | None = None) -> None:
        self._stores, self._memory, self._limits = stores, memory, limits or Limits()

    @contextmanager
    def __call__(self, chunk: Chunk, /) -> Iterator[Iterator[list[bytes]]]:
        """Yield one line for each transaction, without its line feed, in parts of bounded size."""
        frames, codec = [Frame(*frame) for frame in chunk.frames], _codec(chunk.codec)
        offset, length = _range(frames, self._limits)
        items = sum(frame.items for frame in frames)
        most = sum(expanded_at_most(frame.length, codec, self._limits) for frame in frames)
        with self._memory.hold(of_chunk(length, most, items, self._limits)) as held:
            stored = self._stored(chunk, offset, length)
            pieces = [stored[at : at + frame.length] for frame in frames for at in (frame.offset - offset,)]
            expanded = sum(expanded_as_said(piece, codec, self._limits) for piece in pieces)
            # Nearly all say how large they are, and are refused where they are larger.
            held.keep(of_chunk(length, expanded, items, self._limits))
            texts = (read_frame(piece, frame, codec, self._limits) for piece, frame in zip(pieces, frames, strict=True))
            yield _parts(texts, self._limits)

    def _stored(self, chunk: Chunk, offset: int, length: int) -> bytes:
        if chunk.inline is not None:
            return _inline(chunk.inline)[offset : offset + length]
        if chunk.blob is None:
            raise refuse(Reason.PAYLOAD_FORM, "it has neither a blob nor inline bytes")
        # A publisher that drops the same payload again gives its blob another ETag and no other bytes, and each frame
        # is verified by its hash: whatever is there may be read.
        blob = StoredBlob(chunk.blob, chunk.etag or ANY_VERSION, offset + length)
        return self._stores.holding(chunk.job, is_kept=chunk.is_kept).read_touched(blob, offset, length)


def _parts(texts: Iterable[bytes], limits: Limits) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for text in texts:
        lines = text.split(b"\n")[:-1]
        if part and (len(part) + len(lines) > limits.part_items or size + len(text) > limits.part_bytes):
            yield part
            part, size = [], 0
        part, size = part + lines if part else lines, size + len(text)
        while len(part) > limits.part_items:
            yield part[: limits.part_items]
            part = part[limits.part_items :]
    if part:
        yield part


def _range(frames: list[Frame], limits: Limits) -> tuple[int, int]:
    """Return where the chunk's bytes begin and how many they are; its frames follow each other without a gap."""
    if not frames:
        raise refuse(Reason.EMPTY, "the chunk has no frames")
    end = frames[0].offset
    for frame in frames:
        if frame.offset != end or frame.length < 1:
            raise refuse(Reason.BAD_INDEX, f"a frame begins at {frame.offset}, the one before it ends at {end}")
        end += frame.length
    if (items := max(frame.items for frame in frames)) > limits.frame_items_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"a frame has {items} transactions, {limits.frame_items_most} may be")
    length = end - frames[0].offset
    if length > limits.chunk_stored_most:
        raise refuse(Reason.FRAME_TOO_LARGE, f"the chunk has {length} bytes, {limits.chunk_stored_most} may be")
    return frames[0].offset, length


def _codec(name: str) -> Codec:
    try:
        return Codec(name)
    except ValueError as error:
        raise refuse(Reason.UNKNOWN_CODEC, f"the codec is {name[:50]!r}") from error


def _inline(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        # What is not ASCII is refused in other words than what is not Base64.
        raise refuse(Reason.BAD_BASE64, str(error)) from error
