"""Bounds on the size, depth and density of submissions: one value, passed to every reader and writer."""

from dataclasses import dataclass, fields
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of a submission. The writer keeps well within the reader's bounds."""

    #: The limit of a storage queue, counted after encoding.
    message_bytes: int = 64 * KIB
    #: Arrays and objects within each other.
    depth: int = 32
    line_bytes: int = 256 * KIB
    #: The shortest line is `{}` and its line feed: an index that claims more transactions is refused.
    line_least: int = 3
    #: The writer ends a frame at the first of these two.
    frame_items: int = 1_000
    #: Smaller chunks share frames of the app, for fewer lines compress badly.
    frame_items_least: int = 100
    frame_bytes: int = 1 * MIB
    #: The reader's limits for one frame, stored and expanded; 4 MiB of the worst JSON are 100 MiB of objects.
    frame_items_most: int = 100_000
    frame_stored_most: int = 4 * MIB
    frame_expanded_most: int = 4 * MIB
    #: Bytes of one ranged read, and its frames, whose rows fill a fifth of a work message at most.
    chunk_stored_most: int = 16 * MIB
    chunk_frames_most: int = 128
    #: About the most chunks of a job: a row each, and a part of the plan.
    chunks_most: int = 100_000
    #: The upper bounds of one part of a chunk, in lines and expanded bytes. A larger frame is a part of its own.
    part_items: int = 10_000
    part_bytes: int = 4 * MIB
    #: The upper bounds of the kept text of a chunk's rejected transactions, and of its whole result.
    rejected_text_most: int = 4 * MIB
    result_most: int = 32 * MIB
    #: Bytes that expand to more than this multiple of their size are a bomb, from `ratio_from` expanded bytes on.
    ratio_most: int = 500
    ratio_from: int = 1 * MIB
    items_most: int = 10_000_000
    frames_most: int = 100_000
    #: Lines of a file, blank ones included, and its compressed members: skipping them costs time too.
    lines_most: int = 20_000_000
    members_most: int = 20_000
    stored_most: int = 2 * 1024 * MIB
    expanded_most: int = 16 * 1024 * MIB
    #: The size of one request when a blob is written, or a file without an index is read.
    block_bytes: int = 4 * MIB
    #: The size of an index that is a blob of its own.
    index_bytes: int = 16 * MIB
    #: Above this size a spool is a file. It holds compressed frames, a few dozen bytes per transaction.
    spool_in_memory: int = 1 * MIB

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} is {getattr(self, field.name)}, expected 1 or more")
        if self.frame_items > self.frame_items_most or self.frame_bytes > self.frame_expanded_most:
            raise ValueError(
                f"frames of {self.frame_items} transactions and {self.frame_bytes} bytes are larger than the reader's limits, "
                f"{self.frame_items_most} and {self.frame_expanded_most}"
            )
        if self.line_bytes > self.frame_bytes:
            raise ValueError(f"a line of {self.line_bytes} bytes does not fit a frame of {self.frame_bytes}")
