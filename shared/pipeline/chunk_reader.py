"""Reads the lines of one chunk: one ranged read, each frame verified."""

import base64
import binascii
from collections.abc import Iterator
from typing import Protocol

from shared.payload.compression import Codec
from shared.payload.frames import Frame
from shared.payload.limits import Limits
from shared.payload.reading import read_frame
from shared.payload.reasons import Reason, refuse
from shared.payload.store import ANY_VERSION, PayloadStore, StoredBlob
from shared.pipeline.messages import Chunk


class ReadChunk(Protocol):
    """Returns the lines of a chunk; raises RefusedError for what is wrong with its bytes, now and for ever."""

    def __call__(self, chunk: Chunk, /) -> list[bytes]:
        """Read them."""
        ...


class PayloadReader:
    """ReadChunk over the payload container, or over the bytes in the message."""

    def __init__(self, store: PayloadStore, limits: Limits | None = None) -> None:
        self._store, self._limits = store, limits or Limits()

    def __call__(self, chunk: Chunk, /) -> list[bytes]:
        """Return one line for each transaction, without its line feed."""
        frames, codec = [Frame(*frame) for frame in chunk.frames], _codec(chunk.codec)
        offset, length = _range(frames, self._limits)
        return list(_lines(self._stored(chunk, offset, length), offset, frames, codec, self._limits))

    def _stored(self, chunk: Chunk, offset: int, length: int) -> bytes:
        if chunk.inline is not None:
            return _inline(chunk.inline)[offset : offset + length]
        if chunk.blob is None:
            raise refuse(Reason.PAYLOAD_FORM, "it has neither a blob nor inline bytes")
        # A publisher that drops the same payload again gives its blob another ETag and no other bytes, and each frame
        # is verified by its hash: whatever is there may be read.
        blob = StoredBlob(chunk.blob, chunk.etag or ANY_VERSION, offset + length)
        return self._store.read_touched(blob, offset, length)


def _lines(stored: bytes, offset: int, frames: list[Frame], codec: Codec, limits: Limits) -> Iterator[bytes]:
    for frame in frames:
        start = frame.offset - offset
        yield from read_frame(stored[start : start + frame.length], frame, codec, limits).split(b"\n")[:-1]


def _range(frames: list[Frame], limits: Limits) -> tuple[int, int]:
    """Return where the chunk's bytes begin and how many they are; its frames follow each other without a gap."""
    if not frames:
        raise refuse(Reason.EMPTY, "the chunk has no frames")
    end = frames[0].offset
    for frame in frames:
        if frame.offset != end or frame.length < 1:
            raise refuse(Reason.BAD_INDEX, f"a frame begins at {frame.offset}, the one before it ends at {end}")
        end += frame.length
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
    except binascii.Error as error:
        raise refuse(Reason.BAD_BASE64, str(error)) from error
