"""How a job is cut into chunks: a pure function of its payload and the settings, so that a restart cuts the same way."""

import base64

import msgspec
from msgspec import Struct

from shared.payload import Frame as FrameOfIndex
from shared.payload import FrameIndex, Limits, Payload
from shared.payload.names import payload_name
from shared.pipeline.messages import VERSION, Chunk, Frame


class Source(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the payload's bytes are: a blob, or the plan itself.

    Without the blob's ETag: a publisher that drops the same payload again touches the blob, and every frame is
    verified by its hash.
    """

    codec: str
    blob: str | None = None
    inline: str | None = None
    #: As in the work message.
    is_kept: bool = False


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

    @property
    def stored(self) -> int:
        """How many bytes the chunks take where they are stored."""
        return sum(length for chunk in self.chunks for _, length, _, _ in chunk.frames)

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
            inline=self.source.inline,
            is_kept=self.source.is_kept,
        )

    @property
    def blobs(self) -> tuple[str, ...]:
        """The names of what its publisher wrote for it and for nothing else: the payload, and where it is its index."""
        if self.source.blob is None or self.source.is_kept:
            return ()
        frames = tuple(FrameOfIndex(*frame) for chunk in self.chunks for frame in chunk.frames)
        folder = self.source.blob.partition("/")[0]
        return self.source.blob, payload_name(folder, FrameIndex(frames).sha256)

    def encode(self) -> bytes:
        """Return the plan as it is stored."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, content: bytes) -> "Plan":
        """Return a stored plan; raises msgspec.DecodeError or ValidationError."""
        return msgspec.json.decode(content, type=cls)


def plan_of(job: str, workload: str, payload: Payload, chunk_items: int, limits: Limits) -> Plan:
    """Cut a payload into chunks of about so many transactions; frames are never cut."""
    source = Source(
        codec=payload.codec.value,
        blob=None if payload.blob is None else payload.blob.name,
        inline=None if payload.inline is None else base64.b64encode(payload.inline).decode(),
        is_kept=payload.is_kept,
    )
    return Plan(job=job, workload=workload, source=source, chunks=_chunks(payload.index, chunk_items, limits))


def _chunks(index: FrameIndex, chunk_items: int, limits: Limits) -> list[PlannedChunk]:
    if chunk_items < 1:
        raise ValueError(f"chunk_items is {chunk_items}, expected at least 1")
    return [PlannedChunk(one.first_item, list(map(_row, one.frames))) for one in index.chunks(chunk_items, limits)]


def _row(frame: FrameOfIndex) -> Frame:
    return frame.offset, frame.length, frame.items, frame.sha256
