"""The plan of a finish: how the results of a job are cut, and how many shards publish its totals.

A segment is neighbouring chunks, by their numbers. The plan is made once for a revision of a job and then read: all finishers
cut alike, also those of another version. It says the number of slices too, so that all cut a partial alike.

Version 2 has slices. Version 1 has none, or was written before the number of slices got its version: both are read.

The bytes of all segments say how many shards there are, each of which takes some slices of every segment. Blobs that are
written once have the same bytes for everybody, so all steps find the same number.
"""

from collections.abc import Sequence
from typing import Self

from msgspec import Struct


class FinishPlan(Struct, frozen=True, kw_only=True):
    """The segments of a revision, by their first and last chunk, and the slices of each."""

    segments: list[tuple[int, int]]
    #: 1: a segment is one piece.
    slices: int = 1
    #: Above 1: a plan of an earlier version, with a shard for each slice.
    shards: int = 1
    v: int = 1

    @classmethod
    def make(cls, segments: Sequence[tuple[int, int]], slices: int) -> Self:
        """Return a plan in the version that its slices need."""
        return cls(segments=list(segments), slices=slices, v=1 if slices == 1 else 2)

    @property
    def pieces(self) -> int:
        """The slices of each segment, whichever version made the plan."""
        return max(self.slices, self.shards)

    def choose_shards(self, size: int, shard_bytes: int) -> int:
        """Return the number of shards for merged segments of so many bytes together."""
        return self.shards if self.shards > 1 else choose_shards(size, self.slices, shard_bytes)


def choose_shards(size: int, slices: int, shard_bytes: int) -> int:
    """Return how many shards the slices of so many bytes are worth: 1, 2, 4 and so on, at most one for each slice.

    A power of two divides the slices, so an account's shard is the same by its slice and by its hash.
    """
    count = 1
    while count < slices and size > count * shard_bytes:
        count *= 2
    return count
