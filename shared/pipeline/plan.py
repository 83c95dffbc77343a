"""Plans: how a job's payload is cut into chunks, and the blobs that store it.

A chunk is whole frames where that fits, else parts of frames. Only whole frames have a hash, so chunks that share a frame
each read, verify and expand it, and take their own lines.

A plan depends only on the payload and the chunk size. Of two acceptors that measured differently, the first to record its
plan wins, and the other plan is an orphan. Each plan is a blob named after the
hash of its content, in a container that no publisher writes. It is written once and never changed.

`choose` says how many transactions a chunk has: as the setting says, or as many as suit the job and the speed of its workload.

A chunk of any size has one message, one result and one row, so large chunks cost less per transaction. But one exception
parks a chunk, and one crash has a chunk run again. So small jobs have small chunks.

    transactions    100,000      400,000      1,000,000
    a chunk         2,000        8,000        8,000

The finisher of a large job notes how long its transactions took. The next large job of that workload has chunks of at
most 15 seconds by that note. It is a measurement, and may be lost: then the size follows from the job alone.
"""

import base64
import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, ContainerClient
from msgspec import Struct
from msgspec.structs import replace as with_fields

from shared.azure import OptimisticStore, expecting_an_answer
from shared.errors import PlanLostError
from shared.grammar import payload_name
from shared.ledger import Job, Ledger, PlanBlob, PlanText, StretchRow
from shared.messages import VERSION, ChunkMessage, Count, FrameTuple, Number
from shared.payload import Frame as FrameOfIndex, FrameIndex, Limits, Payload
from shared.topology import PLANS
from shared.versions import decode, decode_document
from shared.workloads import Workloads, has_limits, is_waiting


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


class PartPlace(Struct, frozen=True, array_like=True):
    """The place of a chunk that takes a part of its frames."""

    #: The job's transactions before it.
    before: Number
    #: The lines of its first frame that it skips, and its transactions.
    skip: Count
    items: Count


class PlannedChunk(Struct, frozen=True, array_like=True):
    """One chunk: its frames, and the number of the job's transactions before it.

    A chunk that takes a part of its frames has three numbers instead of one. A program that knows only whole
    frames fails at them.
    """

    place: Number | PartPlace
    frames: list[FrameTuple]

    @property
    def before(self) -> int:
        """Number of the job's transactions before it."""
        return self.place if isinstance(self.place, int) else self.place.before

    @property
    def part(self) -> tuple[int, int] | None:
        """The skipped lines and the transactions, or None if it takes all lines of its frames."""
        return None if isinstance(self.place, int) else (self.place.skip, self.place.items)

    @property
    def stored(self) -> int:
        """The stored bytes that its worker reads."""
        return sum(frame[1] for frame in self.frames)

    @property
    def items(self) -> int:
        """Number of its transactions."""
        return sum(frame[2] for frame in self.frames) if self.part is None else self.part[1]


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
    def frames(self) -> tuple[FrameOfIndex, ...]:
        """The frames of the payload. Chunks that share one each list it."""
        rows = {frame[0]: frame for chunk in self.chunks for frame in chunk.frames}
        return tuple(FrameOfIndex(*row) for row in rows.values())

    @property
    def rows(self) -> int:
        """Number of the rows of its chunks: each lists its frames."""
        return sum(len(chunk.frames) for chunk in self.chunks)

    @property
    def stored(self) -> int:
        """Number of stored, compressed bytes of the payload."""
        return sum(frame.length for frame in self.frames)

    def message(self, number: int, first_id: int, revision: int = 0, *, lines: bool = False) -> ChunkMessage:
        """Return the work message of one chunk of a job whose ids start at `first_id`."""
        chunk = self.chunks[number]
        made = ChunkMessage(
            job=self.job,
            chunk=number,
            revision=revision,
            workload=self.workload,
            codec=self.source.codec,
            frames=chunk.frames,
            part=chunk.part,
            sound=self.items if number == 0 and len(self.chunks) > 1 else None,
            lines=lines,
            first_id=first_id + chunk.before,
            blob=self.source.blob,
            inline=self.source.inline,
            is_kept=self.source.is_kept,
        )
        return with_fields(made, v=made.needs)

    @property
    def blobs(self) -> tuple[str, ...]:
        """Names of the blobs that its publisher wrote for this job alone: the payload, and its index if it has one."""
        if self.source.blob is None or self.source.is_kept:
            return ()
        folder = self.source.blob.partition("/")[0]
        return self.source.blob, payload_name(folder, FrameIndex(self.frames).sha256)

    def encode(self) -> bytes:
        """Return the plan in its stored form."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, content: bytes) -> "Plan":
        """Return a stored plan. Raises NewerVersionError, msgspec.DecodeError or ValidationError."""
        plan: Plan = decode_document(content, cls, "plan", "the plan of a job")
        return plan


def plan_of(job: str, workload: str, payload: Payload, chunk_items: int, limits: Limits) -> Plan:
    """Cut a payload into chunks of `chunk_items` transactions."""
    if chunk_items < 1:
        raise ValueError(f"chunk_items is {chunk_items}, expected at least 1")
    source = PayloadSource(
        codec=payload.codec.value,
        blob=None if payload.blob is None else payload.blob.name,
        inline=None if payload.inline is None else base64.b64encode(payload.inline).decode(),
        is_kept=payload.is_kept,
    )
    return Plan(job=job, workload=workload, source=source, chunks=cut(payload.index, chunk_items, limits))


#: A chunk may have this part of its transactions less, if that spares the sharing of a frame.
SPARED: Final = 10


def cut(index: FrameIndex, items: int, limits: Limits) -> list[PlannedChunk]:
    """Return the payload in chunks of so many transactions. The same index always gives the same chunks.

    A chunk has fewer where its bytes or frames would pass a bound, and more where the job would have too many chunks.
    """
    most = max(items, -(-index.items // limits.chunks_most))
    least = most - most // SPARED
    chunks: list[PlannedChunk] = []
    frames: list[FrameOfIndex] = []
    before = skip = held = size = 0
    for frame in index.frames:
        left = frame.items
        while left:
            is_sparing = least <= held < most < held + left
            is_full = held == most or is_sparing or len(frames) == limits.chunk_frames_most
            if frames and (is_full or size + frame.length > limits.chunk_stored_most):
                chunks.append(_chunk(before, skip, held, frames))
                frames, before, skip, held, size = [], before + held, frame.items - left, 0, 0
            taken = min(left, most - held)
            frames.append(frame)
            held, size, left = held + taken, size + frame.length, left - taken
    return [*chunks, _chunk(before, skip, held, frames)]


def _chunk(before: int, skip: int, items: int, frames: list[FrameOfIndex]) -> PlannedChunk:
    is_whole = items == sum(frame.items for frame in frames)
    rows = [(frame.offset, frame.length, frame.items, frame.sha256) for frame in frames]
    return PlannedChunk(before if is_whole else PartPlace(before, skip, items), rows)


#: Bytes of a plan that its job's row has. The row is written several times.
MOST_IN_A_ROW: Final = 4096


def write_small(plan: Plan) -> PlanText | None:
    """Return the plan as a job's row has it. None: it goes into a blob, for it is long or names the payload's."""
    if plan.source.blob is not None or len(plan.chunks) != 1:
        return None
    content = plan.encode()
    return PlanText(content.decode()) if len(content) <= MOST_IN_A_ROW else None


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

    def read(self, job: str, stored: PlanBlob | PlanText) -> Plan:
        """Return the plan, after comparing the bytes of a blob with the hash in its name. One in a row is no request."""
        if isinstance(stored, PlanText):
            return Plan.decode(stored.text.encode())
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


class _GrownChunks(Sequence[PlannedChunk]):
    """The chunks of all stretches. Each of their plans is read when one of its chunks is wanted."""

    def __init__(self, plan: "GrownPlan", count: int) -> None:
        self._plan, self._count = plan, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: Any) -> Any:
        plan, _, first = self._plan.find(number)
        return plan.chunks[number - first]


class GrownPlan:
    """The plans of a job that came in stretches, as one. It keeps two of them: a dispatch goes through them in order."""

    def __init__(self, first: PlanBlob | PlanText, rows: Sequence[StretchRow], plans: PlanStore) -> None:
        self._rows = rows
        stored = [first, *(row.plan for row in rows)]
        self._read = lru_cache(2)(lambda at: plans.read(rows[0].job, stored[at]))
        self.chunks = _GrownChunks(self, rows[-1].chunk + rows[-1].chunks)
        #: At most so many rows are in memory.
        self.rows = 2 * max(rows[0].chunk, *(row.chunks for row in rows)) * Limits().chunk_frames_most

    def find(self, number: int) -> tuple[Plan, int | None, int]:
        """Return the plan of a chunk's stretch, its first id, and its first chunk. None: that of the job."""
        at = bisect_right(self._rows, number, key=attrgetter("chunk")) - 1
        if at < 0:
            return self._read(0), None, 0
        return self._read(at + 1), self._rows[at].id_base, self._rows[at].chunk

    def message(self, number: int, first_id: int, revision: int = 0, *, lines: bool = False) -> ChunkMessage:
        """Return the work message of one chunk. `first_id` is that of the first stretch."""
        plan, own_id, first = self.find(number)
        return with_fields(
            plan.message(number - first, first_id if own_id is None else own_id, revision, lines=lines), chunk=number
        )

    @property
    def stored(self) -> int:
        """Number of stored bytes of the payload."""
        return sum(self._read(at).stored for at in range(len(self._rows) + 1))


AnyPlan: TypeAlias = Plan | GrownPlan


def read_plan(plans: PlanStore, ledger: Ledger, job: Job) -> AnyPlan:
    """Return the plan of a job, of all stretches that it has now."""
    if job.plan is None:
        raise PlanLostError(f"job {job.job!r} has no plan")
    rows = ledger.stretches_of(job.job) if job.stretches > 1 else []
    return GrownPlan(job.plan, rows, plans) if rows else plans.read(job.job, job.plan)


#: `auto` means chunks of so many transactions, in whole thousands.
SMALLEST: Final = 1_000
LARGEST: Final = 8_000
#: The chunks of a job, before either bound.
WANTED: Final = 50
#: The upper bound for a workload that waits, before its first measurement.
UNMEASURED: Final = 2_000
#: Seconds that a chunk may take. Waiting for the processor counts, so the bound is far above the work of a usual chunk.
LONGEST: Final = 15.0


class Speed(Struct, frozen=True, kw_only=True):
    """The time that the last large job of a workload took."""

    milliseconds: int
    items: int
    v: int = 1


@dataclass(frozen=True, slots=True)
class Speeds:
    """The measured speeds of workloads, one blob each."""

    store: Callable[[str], OptimisticStore]

    def read(self, workload: str) -> Speed | None:
        """Return the measurement. None: there is no measurement, or this version cannot read it."""
        found = self.store(workload).read()
        if found is None:
            return None
        try:
            speed = decode(found.value, Speed)
        except (ValueError, RecursionError):
            return None
        return speed if speed.v == 1 and speed.milliseconds > 0 < speed.items else None

    def note(self, job: Job) -> None:
        """Note the speed of a finished job, if it is large. Of two jobs that end at once, one is noted."""
        ran = job.totals.accepted.items + job.totals.rejected.items
        if not (_is_large(job.items) and ran):
            return
        store, speed = self.store(job.workload), Speed(milliseconds=max(1, job.milliseconds), items=ran)
        found = store.read()
        store.try_write(msgspec.json.encode(speed), None if found is None else found.etag)


def choose(items: int, speed: Speed | None, *, is_waiting: bool) -> int:
    """Return the chunk size for a job of so many transactions."""
    size = min(items // WANTED, LARGEST)
    if speed is not None:
        size = min(size, int(LONGEST * 1000 * speed.items / speed.milliseconds))
    elif is_waiting:
        size = min(size, UNMEASURED)
    return max(SMALLEST, size // SMALLEST * SMALLEST)


def _is_large(items: int) -> bool:
    """Check whether a measurement could change the chunk size of a job."""
    return choose(items, None, is_waiting=False) > SMALLEST


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """The chunk sizes of an installation."""

    #: The setting. None: `auto`.
    fixed: int | None
    speeds: Speeds
    workloads: Workloads

    @property
    def least(self) -> int:
        """The lower bound of every chunk size here. The app's frames end where chunks of this size end."""
        return self.fixed or SMALLEST

    def of(self, workload: str, items: int) -> int:
        """Return the chunk size for a new job. Only for a large one the speed of its workload is read."""
        if self.fixed is not None:
            return self.fixed
        if not _is_large(items):
            return SMALLEST
        # A chunk with limits keeps others of them waiting.
        if has_limits(found := self.workloads.find(workload)):
            return SMALLEST
        return choose(items, self.speeds.read(workload), is_waiting=is_waiting(found))
