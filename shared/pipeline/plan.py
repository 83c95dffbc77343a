"""Plans: how a job's payload is cut into chunks, and the blobs that store it.

A plan depends only on the payload and the settings, so a restart cuts the same way. Each plan is a blob named after the
hash of its content, in a container that no publisher writes. It is written once and never changed.
"""

import base64
import hashlib
from collections.abc import Callable

import msgspec
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, ContainerClient
from msgspec import Struct

from shared.azure import expecting_an_answer
from shared.errors import PlanLostError
from shared.grammar import payload_name
from shared.ledger import PlanBlob
from shared.messages import VERSION, ChunkMessage, FrameTuple
from shared.payload import Frame as FrameOfIndex
from shared.payload import FrameIndex, Limits, Payload
from shared.topology import PLANS


class PayloadSource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The place of the payload's bytes: a blob, or the plan itself.

    It has no ETag, because a publisher that drops the same payload again touches the blob. Every frame is verified by
    its hash instead.
    """

    codec: str
    blob: str | None = None
    inline: str | None = None
    #: As in the work message.
    is_kept: bool = False


class PlannedChunk(Struct, frozen=True, array_like=True):
    """One chunk: its frames, and the number of the job's transactions before it."""

    before: int
    frames: list[FrameTuple]

    @property
    def items(self) -> int:
        """Number of its transactions."""
        return sum(frame[2] for frame in self.frames)


class Plan(Struct, frozen=True, kw_only=True):
    """A job's chunks. It has no ids, so that every plan of the same payload has the same bytes."""

    job: str
    workload: str
    source: PayloadSource
    chunks: list[PlannedChunk]
    v: int = VERSION

    @property
    def items(self) -> int:
        """Number of the job's transactions."""
        return self.chunks[-1].before + self.chunks[-1].items if self.chunks else 0

    @property
    def stored(self) -> int:
        """Number of stored, compressed bytes of the chunks."""
        return sum(length for chunk in self.chunks for _, length, _, _ in chunk.frames)

    def message(self, number: int, first_id: int, revision: int = 0) -> ChunkMessage:
        """Return the work message of one chunk of a job whose ids start at `first_id`."""
        chunk = self.chunks[number]
        return ChunkMessage(
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
        """Names of the blobs that its publisher wrote for this job alone: the payload, and its index if it has one."""
        if self.source.blob is None or self.source.is_kept:
            return ()
        frames = tuple(FrameOfIndex(*frame) for chunk in self.chunks for frame in chunk.frames)
        folder = self.source.blob.partition("/")[0]
        return self.source.blob, payload_name(folder, FrameIndex(frames).sha256)

    def encode(self) -> bytes:
        """Return the plan in its stored form."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, content: bytes) -> "Plan":
        """Return a stored plan. Raises msgspec.DecodeError or ValidationError."""
        return msgspec.json.decode(content, type=cls)


def plan_of(job: str, workload: str, payload: Payload, chunk_items: int, limits: Limits) -> Plan:
    """Cut a payload into chunks of about `chunk_items` transactions, without cutting a frame."""
    source = PayloadSource(
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


def _row(frame: FrameOfIndex) -> FrameTuple:
    return frame.offset, frame.length, frame.items, frame.sha256


class PlanStore:
    """Writes and reads the plans of jobs."""

    def __init__(self, container: Callable[[str], ContainerClient]) -> None:
        self._container = container

    def put(self, plan: Plan) -> PlanBlob:
        """Write the plan. A second write of the same plan finds the first one."""
        content = plan.encode()
        name = payload_name(plan.job, hashlib.sha256(content).hexdigest())
        blob = self._blob(PlanBlob(name, "", PLANS))
        with expecting_an_answer(f"write the plan of job {plan.job!r}"):
            try:
                written = blob.upload_blob(content, overwrite=False)
            except ResourceExistsError:
                # Written by another process, or by this request, whose reply was lost. The name proves equal content.
                return PlanBlob(name, str(blob.get_blob_properties().etag), PLANS)
        return PlanBlob(name, str(written["etag"]), PLANS)

    def read(self, job: str, stored: PlanBlob) -> Plan:
        """Return the plan after comparing its bytes with the hash in its name."""
        with expecting_an_answer(f"read the plan of job {job!r}"):
            try:
                content = self._blob(stored).download_blob().readall()
            except ResourceNotFoundError as missing:
                raise PlanLostError(f"the plan of job {job!r} is gone: there is no blob {stored.name!r}") from missing
        if payload_name(job, hashlib.sha256(content).hexdigest()) != stored.name:
            raise PlanLostError(f"the plan of job {job!r} was changed: blob {stored.name!r} does not have its hash")
        return Plan.decode(content)

    def _blob(self, plan: PlanBlob) -> BlobClient:
        return self._container(plan.container).get_blob_client(plan.name)
