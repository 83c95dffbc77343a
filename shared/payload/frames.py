"""The index of a payload: where each frame lies, how many transactions it holds, and its hash."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import msgspec

from shared.payload.compression import Codec
from shared.payload.limits import Limits
from shared.payload.names import SHA256
from shared.payload.reasons import Reason, refuse


class Frame(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """One row of the index: [offset, length, items, sha256 of the stored bytes]."""

    offset: int
    length: int
    items: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive frames that are fetched by one ranged read and worked on together."""

    number: int
    #: The position of its first transaction in the payload.
    first_item: int
    frames: tuple[Frame, ...]

    @property
    def offset(self) -> int:
        """Where its bytes begin in the payload."""
        return self.frames[0].offset

    @property
    def length(self) -> int:
        """How many stored bytes it has."""
        return sum(frame.length for frame in self.frames)

    @property
    def items(self) -> int:
        """How many transactions it has."""
        return sum(frame.items for frame in self.frames)


@dataclass(frozen=True, slots=True)
class FrameIndex:
    """The frames of a whole payload, in order, without a gap."""

    frames: tuple[Frame, ...]

    @property
    def items(self) -> int:
        """How many transactions the payload has."""
        return sum(frame.items for frame in self.frames)

    @property
    def stored(self) -> int:
        """How many bytes the payload has."""
        return sum(frame.length for frame in self.frames)

    def encode(self) -> bytes:
        """Return the one spelling of this index; its hash is the index's hash."""
        return msgspec.json.encode(self.frames)

    @property
    def sha256(self) -> str:
        """The hash of the index, which stands for the content of the payload."""
        return hashlib.sha256(self.encode()).hexdigest()

    def chunks(self, items: int, limits: Limits) -> tuple[Chunk, ...]:
        """Return the frames in groups of about so many transactions; the same index always gives the same groups."""
        numbered = zip(self._groups(items, limits), self.frames, strict=True)
        chunks: list[Chunk] = []
        first = 0
        for number, members in groupby(numbered, key=lambda one: one[0]):
            chunks.append(Chunk(number, first, tuple(frame for _, frame in members)))
            first += chunks[-1].items
        return tuple(chunks)

    def _groups(self, items: int, limits: Limits) -> Iterator[int]:
        """Yield the number of each frame's group: it ends before it would hold more than asked for."""
        number = frames = held = size = 0
        for frame in self.frames:
            is_full = held + frame.items > items or size + frame.length > limits.chunk_stored_most
            if frames and (is_full or frames == limits.chunk_frames_most):
                number, frames, held, size = number + 1, 0, 0, 0
            frames, held, size = frames + 1, held + frame.items, size + frame.length
            yield number


_DECODER: Final = msgspec.json.Decoder(tuple[Frame, ...])


def parse_index(text: bytes, codec: Codec, limits: Limits) -> FrameIndex:
    """Return the index that stands in a blob of its own, checked."""
    try:
        frames = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise refuse(Reason.BAD_INDEX, str(error)) from error
    return check_index(frames, codec, limits)


def check_index(frames: Sequence[Frame], codec: Codec, limits: Limits) -> FrameIndex:
    """Return the index, or refuse it: frames follow each other from 0 on, and each can hold what it claims.

    Ids are reserved by what an index claims, before anything of the payload is read.
    """
    if not frames:
        raise refuse(Reason.EMPTY, "the index lists no frames")
    if len(frames) > limits.frames_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"it has {len(frames)} frames, {limits.frames_most} may be")
    end, ratio = 0, 1 if codec is Codec.PLAIN else limits.ratio_most
    for number, frame in enumerate(frames):
        _check_frame(number, frame, end, limits)
        if frame.items * limits.line_least > frame.length * ratio:
            raise refuse(
                Reason.LINE_COUNT,
                f"frame {number} has {frame.length} bytes and {frame.items} lines by its index; "
                f"{frame.length * ratio // limits.line_least} may be",
            )
        end += frame.length
    index = FrameIndex(tuple(frames))
    if index.items > limits.items_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"it has {index.items} transactions, {limits.items_most} may be")
    if end > limits.stored_most:
        raise refuse(Reason.PAYLOAD_TOO_LARGE, f"it has {end} bytes, {limits.stored_most} may be")
    return index


def _check_frame(number: int, frame: Frame, end: int, limits: Limits) -> None:
    if frame.offset != end:
        raise refuse(Reason.BAD_INDEX, f"frame {number} begins at {frame.offset}, the one before it ends at {end}")
    if frame.length < 1 or frame.items < 1:
        raise refuse(Reason.BAD_INDEX, f"frame {number} has {frame.length} bytes and {frame.items} transactions")
    if frame.length > limits.frame_stored_most:
        raise refuse(Reason.FRAME_TOO_LARGE, f"frame {number} has {frame.length} bytes")
    if frame.items > limits.frame_items_most:
        raise refuse(Reason.TOO_MANY_ITEMS, f"frame {number} has {frame.items} transactions")
    if not SHA256.fullmatch(frame.sha256):
        raise refuse(Reason.BAD_INDEX, f"frame {number} has the hash {frame.sha256[:70]!r}, expected 64 of 0-9 a-f")
