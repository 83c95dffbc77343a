"""Ranges of a publisher's file: each is read and cut by itself, so that no process has to read the whole file.

A line belongs to the range that has its first byte. So a range begins behind the first line feed from the byte before it on,
and ends behind the first one from its last byte on. It may have no line: then another line goes over it, or all are blank.

What was cut is a blob for each range, by its number, in the container that no publisher writes. They are the log of the job,
as stretches that a publisher writes.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count
from typing import Final

import msgspec

from shared.grammar import payload_name
from shared.payload.frames import Codec, Frame, FrameIndex
from shared.payload.payload_store import MIB, Limits, StoredBlob
from shared.payload.stretches import ReadStretch
from shared.versions import decode_document

#: How many ranges may be cut before the first of them was taken: chunks of the first ones do not wait behind all of them.
AHEAD: Final = 32


@dataclass(frozen=True, slots=True)
class Ranges:
    """The version of a file that is cut, and the bytes of each range."""

    etag: str
    size: int
    step: int
    #: The hash of its content, if its writer or storage noted one. A new ETag alone is then no other file.
    md5: str = ""

    @classmethod
    def of(cls, blob: StoredBlob, limits: Limits) -> "Ranges":
        """Return the ranges of a file: as many bytes as a stretch has, or more where that would be too many ranges."""
        step, most = limits.stretch_bytes, limits.stretches_most
        if blob.size > step * most:
            step = -(-blob.size // (most * MIB)) * MIB
        return cls(blob.etag, blob.size, step, blob.md5)

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-self.size // self.step)

    @property
    def content(self) -> str:
        """Return the same text for the same file. Its bytes are not read for it."""
        return hashlib.sha256(f"{self.md5 or self.etag} {self.size}".encode()).hexdigest()

    def bytes_of(self, number: int) -> tuple[int, int]:
        """Return the first byte of a range, and the one behind its last."""
        return number * self.step, min(self.size, (number + 1) * self.step)

    def ahead_of(self, taken: int) -> range:
        """Return the numbers of those that may be cut while so many are taken."""
        return range(taken, min(self.count, taken + AHEAD))

    def next_to(self, number: int) -> int | None:
        """Return the number of the range whose turn it is when this one was cut. None: all have theirs."""
        return number + AHEAD if number + AHEAD < self.count else None


def read_range(read: Callable[[int, int], bytes], size: int, start: int, end: int, limits: Limits) -> Iterator[bytes]:
    """Yield the bytes of the lines that begin in a range of a file of this size."""
    block, at, is_inside = limits.block_bytes, max(0, start - 1), start == 0
    # Nearly every line ends so soon behind the range that no further request is needed for it.
    for goal in chain(range(start + block, end, block), count(end + max(1, block // 64), block)):
        if at >= size:
            return
        piece, begin = read(at, min(goal, size) - at), 0
        if not is_inside:
            begin = piece.find(b"\n") + 1
            is_inside = begin > 0
        if not is_inside and goal < end:
            at += len(piece)
            continue
        if not is_inside or (begin and at + begin >= end):
            return
        last = piece.find(b"\n", max(begin, end - 1 - at)) + 1
        yield piece[begin : last or len(piece)]
        if last:
            return
        at += len(piece)


class CutRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The blob of a range that was cut: the frames of its lines. Without any, it has no line."""

    #: The hash that names their bytes.
    sha256: str = ""
    frames: tuple[Frame, ...] = ()
    v: int = 1

    def encode(self) -> bytes:
        """Return the bytes of the blob."""
        fields = {name: getattr(self, name) for name in ("v", "sha256", "frames")}
        return msgspec.json.encode({name: one for name, one in fields.items() if one})


def read_cut(content: bytes, job: str, number: int, previous: str) -> ReadStretch:
    """Read a range that was cut as the stretch of this number. Without an index, it has no line."""
    cut = decode_document(content, CutRange, "cut range", f"what was cut of range {number} of job {job!r}")
    made = hashlib.sha256(content).hexdigest()
    if not cut.frames:
        return ReadStretch(number, previous, made, "")
    return ReadStretch(number, previous, made, "", Codec.ZSTD, payload_name(job, cut.sha256), FrameIndex(cut.frames))
