"""How a job is cut into chunks: a pure function of its payload and the settings, so that a restart cuts the same way."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from shared.pipeline.messages import VERSION, Chunk, Frame

#: Transactions of a chunk at most, unless one frame alone holds more: frames are never cut.
CHUNK_ITEMS: Final = 1000


class Source(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the payload's bytes are: a blob as it was when the job was accepted, or in the plan itself."""

    codec: str
    blob: str | None = None
    etag: str | None = None
    inline: str | None = None


class PlannedChunk(Struct, frozen=True, array_like=True):
    """One chunk: its frames, and how many transactions of the job come before it."""

    before: int
    frames: list[Frame]

    @property
    def items(self) -> int:
        """How many transactions it has."""
        return sum(frame[2] for frame in self.frames)


class Plan(Struct, frozen=True, kw_only=True):
    """A job's chunks; without ids, so that everybody who plans the same payload writes the same bytes."""

    job: str
    workload: str
    source: Source
    chunks: list[PlannedChunk]
    v: int = VERSION

    @property
    def items(self) -> int:
        """How many transactions the job has."""
        return self.chunks[-1].before + self.chunks[-1].items if self.chunks else 0

    def message(self, number: int, first_id: int, revision: int = 0) -> Chunk:
        """Return the work message of one chunk of a job whose ids start at `first_id`."""
        chunk = self.chunks[number]
        return Chunk(
            job=self.job,
            chunk=number,
            revision=revision,
            workload=self.workload,
            codec=self.source.codec,
            frames=chunk.frames,
            first_id=first_id + chunk.before,
            blob=self.source.blob,
            etag=self.source.etag,
            inline=self.source.inline,
        )

    def encode(self) -> bytes:
        """Return the plan as it is stored."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, content: bytes) -> "Plan":
        """Return a stored plan; raises msgspec.DecodeError or ValidationError."""
        return msgspec.json.decode(content, type=cls)


def cut(frames: Sequence[Frame], chunk_items: int = CHUNK_ITEMS) -> list[PlannedChunk]:
    """Gather neighbouring frames into chunks of at most `chunk_items` transactions."""
    if chunk_items < 1:
        raise ValueError(f"chunk_items is {chunk_items}, expected at least 1")
    return list(_gathered(frames, chunk_items))


def _gathered(frames: Sequence[Frame], chunk_items: int) -> Iterator[PlannedChunk]:
    before, gathered, items = 0, list[Frame](), 0
    for frame in frames:
        if gathered and items + frame[2] > chunk_items:
            yield PlannedChunk(before, gathered)
            before, gathered, items = before + items, [], 0
        gathered.append(frame)
        items += frame[2]
    if gathered:
        yield PlannedChunk(before, gathered)
