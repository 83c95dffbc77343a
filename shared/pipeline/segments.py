"""Merges the results of a job: in this process if they are one segment, else each segment as a work message.

    finish      cuts the rows into segments, writes the plan, sends a message for each segment.
    segment n   writes rejected parts, then its blob, in as many cuts as the plan has shards. The step that finds all blobs sends `finish`.
    finish      joins the blobs; or leaves them to shards, if they are large and the workload can split its partial by account.

Only the blobs tell how far it is. So each step may be lost, doubled or killed. The tick sends `finish`, which sends the
messages of missing segments again. A late step of an older revision writes into the folder of that revision.

`SegmentBlobs` has the blobs of a finish: its plan, its segments and its shards. All are below `results/<job>/<revision>/finish/`. Each is written once, and last in its step.

The blob of a segment in one cut is a zstd frame of JSON. In cuts it is a line of JSON with its totals and the length of
each cut, and then the cuts, each a zstd frame of its own. So the totals are read without the cuts.

`Merger` joins the partials of neighbouring chunks in the order of their numbers. Memory does not grow with the number of chunks: it holds one merged partial and a window of results. Rejected transactions may be
as many as the transactions, so their stored lines are copied without decoding.

The plan of a finish: how the results of a job are cut, and how many shards publish its totals.

A segment is neighbouring chunks, by their numbers. The plan is made once for a revision of a job and then read: all finishers
cut alike, also those of another version. It says the number of cuts too, so that all cut a partial alike.

Version 2 has cuts. Version 1 has none, or was written before the number of cuts got its version: both are read.

The bytes of all segments say how many shards there are, each of which takes some cuts of every segment. Blobs that are
written once have the same bytes for everybody, so all steps find the same number.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import accumulate
from typing import Any, Final, NamedTuple, Self

import msgspec
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.storage.blob import ContainerClient
from msgspec import Raw, Struct

from shared.azure import charges, expecting_an_answer, tally_requests
from shared.errors import FinishRefusedError, ResultRefusedError
from shared.ledger import ChunkRow, ChunkState, Job, Ledger, Totals, read_totals, write_totals
from shared.messages import Finish, FinishStep, Segment, Shard
from shared.pipeline.dispatch import APART, FinishCall
from shared.pipeline.outputs import OutputPart, Outputs, PartWriter
from shared.pipeline.results import read_partial, read_results
from shared.telemetry import contain
from shared.versions import decode, decode_document
from shared.workloads import AnyWorkload, Workloads, calling, has_split, split
from shared.zstd import ZstdError, pack, unpack


class FinishPlan(Struct, frozen=True, kw_only=True):
    """The segments of a revision, by their first and last chunk, and the cuts of each."""

    segments: list[tuple[int, int]]
    #: 1: a segment is one cut.
    cuts: int = msgspec.field(default=1, name="slices")
    #: Above 1: a plan of an earlier version, with a shard for each cut.
    shards: int = 1
    v: int = 1

    @classmethod
    def make(cls, segments: Sequence[tuple[int, int]], cuts: int) -> Self:
        """Return a plan in the version that its cuts need."""
        return cls(segments=list(segments), cuts=cuts, v=1 if cuts == 1 else 2)

    @property
    def cuts_of_each(self) -> int:
        """The cuts of each segment, whichever version made the plan."""
        return max(self.cuts, self.shards)

    def choose_shards(self, size: int, shard_bytes: int) -> int:
        """Return the number of shards for merged segments of so many bytes together."""
        return self.shards if self.shards > 1 else choose_shards(size, self.cuts, shard_bytes)


def choose_shards(size: int, cuts: int, shard_bytes: int) -> int:
    """Return how many shards the cuts of so many bytes are worth: 1, 2, 4 and so on, at most one for each cut.

    A power of two divides the cuts, so an account's shard is the same by its cut and by its hash.
    """
    count = 1
    while count < cuts and size > count * shard_bytes:
        count *= 2
    return count


_WRITTEN_BEFORE: Final = frozenset({409, 412})
_PLAN: Final = "plan"
#: Upper bound of the first line of a segment in cuts: three sums, some kinds of requests, the lengths.
_LONGEST_HEAD: Final = 16 * 1024
#: The version of each blob.
_VERSION: Final = 1


class Steps(NamedTuple):
    """How far the steps are, by their blobs."""

    #: Segments that are not merged yet.
    missing: list[int]
    #: Bytes of those that are.
    size: int
    #: Shards that are written.
    written: frozenset[int]


class SegmentResult(NamedTuple):
    """The outcome of the chunks of a segment. Its partials, one for each cut, are decoded by the type of the workload."""

    totals: Totals
    partials: Sequence[Raw]
    #: Storage requests that merging it took, by the meter that bills them.
    requests: Mapping[str, int]


class _Stored(Struct, frozen=True, kw_only=True):
    """A merged segment in its stored form."""

    totals: Raw
    partial: Raw
    requests: dict[str, int]
    v: int = _VERSION


class _Head(Struct, frozen=True, kw_only=True):
    """The first line of a merged segment in cuts: the bytes of each cut follow it, in their order."""

    totals: Raw
    requests: dict[str, int]
    cuts: list[int] = msgspec.field(name="slices")
    v: int = _VERSION


class ShardResult(Struct, frozen=True, kw_only=True):
    """The outcome of a shard: its rows of totals, its output lines, and the requests that it took."""

    totals: int
    lines: int
    requests: dict[str, int] = {}
    v: int = _VERSION


class SegmentBlobs:
    """The blobs of one revision's finish."""

    def __init__(self, container: ContainerClient, job: str, revision: int) -> None:
        self._container, self._folder = container, f"{job}/{revision}/finish/"

    def find_plan(self) -> FinishPlan | None:
        """Return the plan, or None."""
        content = self._read(_PLAN)
        return None if content is None else _decode(content, FinishPlan, "finish plan", self._folder + _PLAN)

    def put_plan(self, plan: FinishPlan) -> tuple[FinishPlan, bool]:
        """Write the plan and return it with True, or return the plan that is there with False."""
        if self._put(_PLAN, msgspec.json.encode(plan)):
            return plan, True
        return self.find_plan() or plan, False

    def list_steps(self, plan: FinishPlan) -> Steps:
        """Return how far the segments and the shards are."""
        with expecting_an_answer(f"list the blobs in {self._folder!r}"):
            found = {
                blob.name.removeprefix(self._folder): int(blob.size)
                for blob in self._container.list_blobs(name_starts_with=self._folder)
            }
        sizes = [found.get(_name(number)) for number in range(len(plan.segments))]
        return Steps(
            missing=[number for number, size in enumerate(sizes) if size is None],
            size=sum(size or 0 for size in sizes),
            written=frozenset(number for number in range(plan.cuts_of_each) if _shard_name(number) in found),
        )

    def put(self, number: int, totals: Totals, cuts: Sequence[Any], requests: Mapping[str, int]) -> None:
        """Write a merged segment, unless it is there. `requests` are those that merging it took."""
        added = Raw(write_totals(totals).encode())
        if len(cuts) == 1:
            partial = Raw(msgspec.json.encode(cuts[0]))
            stored = _Stored(totals=added, partial=partial, requests=dict(requests))
            self._put(_name(number), _pack(stored))
            return
        packed = [_pack(one) for one in cuts]
        head = _Head(totals=added, requests=dict(requests), cuts=[len(one) for one in packed])
        self._put(_name(number), b"".join((msgspec.json.encode(head), b"\n", *packed)))

    def put_shard(self, number: int, totals: int, lines: int, requests: Mapping[str, int]) -> None:
        """Write the outcome of a shard, unless it is there."""
        done = ShardResult(totals=totals, lines=lines, requests=dict(requests))
        self._put(_shard_name(number), msgspec.json.encode(done))

    def read_heads(self, plan: FinishPlan) -> Iterator[SegmentResult]:
        """Yield the totals and requests of all segments in cuts, without their partials."""
        for number in range(len(plan.segments)):
            yield self._read_head(plan, number, self._need(_name(number), _LONGEST_HEAD))[0]

    def read_cuts(self, plan: FinishPlan, cuts: Sequence[int]) -> Iterator[SegmentResult]:
        """Yield some cuts of all segments in their order, one segment at a time."""
        for number in range(len(plan.segments)):
            path = self._folder + _name(number)
            # One request; the other cuts stay packed.
            content = self._need(_name(number))
            if plan.cuts_of_each == 1:
                stored = _decode(_unpack(content, path), _Stored, "segment result", path)
                totals = read_totals(bytes(stored.totals).decode())
                yield SegmentResult(totals, [stored.partial], stored.requests)
                continue
            segment, places = self._read_head(plan, number, content)
            partials = [Raw(_unpack(content[places[one] : places[one + 1]], path)) for one in cuts]
            yield segment._replace(partials=partials)

    def read_shards(self, count: int) -> list[ShardResult]:
        """Return the outcomes of all shards."""
        names = [_shard_name(number) for number in range(count)]
        return [_decode(self._need(name), ShardResult, "shard result", self._folder + name) for name in names]

    def _read_head(self, plan: FinishPlan, number: int, content: bytes) -> tuple[SegmentResult, list[int]]:
        """Return a segment without its partial, and where each of its cuts begins and the last one ends."""
        path = self._folder + _name(number)
        line, found, _ = content[:_LONGEST_HEAD].partition(b"\n")
        head = _decode(line, _Head, "segment result", path)
        if not found or len(head.cuts) != plan.cuts_of_each:
            raise _refuse(path, ValueError(f"it has {len(head.cuts)} cuts, and the plan says {plan.cuts_of_each}"))
        places = list(accumulate(head.cuts, initial=len(line) + 1))
        return SegmentResult(read_totals(bytes(head.totals).decode()), (), head.requests), places

    def _need(self, name: str, most: int | None = None) -> bytes:
        if (content := self._read(name, most)) is None:
            raise ResultRefusedError(f"{self._folder + name!r} is gone although it was written: resume the job")
        return content

    def _read(self, name: str, most: int | None = None) -> bytes | None:
        with expecting_an_answer(f"read {self._folder + name!r}"):
            try:
                return self._container.download_blob(
                    self._folder + name, offset=None if most is None else 0, length=most
                ).readall()
            except ResourceNotFoundError:
                return None
            except HttpResponseError as refusal:
                # A range of a blob without a byte.
                if refusal.status_code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    raise
                return b""

    def _put(self, name: str, content: bytes) -> bool:
        with expecting_an_answer(f"write {self._folder + name!r}"):
            try:
                # Without `overwrite` the request says If-None-Match: *.
                self._container.upload_blob(self._folder + name, content)
            except HttpResponseError as refusal:
                # Another finisher of this revision was first, or this very request, whose reply was lost.
                if refusal.status_code not in _WRITTEN_BEFORE:
                    raise
                return False
        return True


def _name(number: int) -> str:
    return f"segment-{number:06}"


def _shard_name(number: int) -> str:
    return f"shard-{number:02}"


def _pack(content: Any) -> bytes:
    return pack(msgspec.json.encode(content), level=1, has_checksum=True)


def _unpack(packed: bytes, path: str) -> bytes:
    try:
        return unpack(packed)
    except ZstdError as error:
        raise _refuse(path, error) from error


def _decode(content: bytes, kind: type[Any], document: str, path: str) -> Any:
    try:
        return decode_document(content, kind, document, f"blob {path!r}")
    except (ValueError, RecursionError) as error:
        raise _refuse(path, error) from error


def _refuse(path: str, error: Exception) -> ResultRefusedError:
    return ResultRefusedError(
        f"{path!r} cannot be read: {error}; find out who else writes to container 'results', then resume the job"
    )


#: Upper bound of the merged partial, in bytes of JSON; as objects it takes some ten times that.
MERGED_MOST: Final = 16 * 1024 * 1024
#: How the names of parts with rejected transactions begin.
REJECTED: Final = "rejected"


@dataclass(frozen=True, slots=True)
class Merged:
    """All partials merged, and the totals of all rows, added up again from the rows."""

    partial: Any
    totals: Totals


class Merger:
    """Merges partials of one revision of a job, by its workload."""

    def __init__(
        self, results: ContainerClient, outputs: Outputs, workload: AnyWorkload, *, merged_most: int = MERGED_MOST
    ) -> None:
        self._results, self._outputs, self._workload = results, outputs, workload
        self._totals, self._most = Totals(), merged_most
        #: Bytes of the merged partial at its last check, and of the partials merged since.
        self._checked_size = self._added = 0
        with calling(workload, "combine"):
            self.partial: Any = workload.combine([])

    def merge(self, rows: Iterable[ChunkRow], segment: int) -> Merged:
        """Merge the partials of the done rows, and write their rejected transactions under the number of the segment."""
        # A segment that is merged again writes the same names.
        rejected = PartWriter(self._outputs, f"{REJECTED}-{segment:06}")
        for result, rejections in read_results(self._results, self._take_done(rows)):
            self._add(read_partial(result, self._workload.partial), memoryview(result.partial).nbytes)
            for line in rejections:
                rejected.write_line(line)
        rejected.close()
        return Merged(self.partial, self._totals)

    def add(self, partial: Raw) -> None:
        """Merge the partial of a whole segment."""
        try:
            with contain():
                found = decode(partial, self._workload.partial)
        except (ValueError, RecursionError) as error:
            raise ResultRefusedError(
                f"the partial of a merged segment is not a {self._workload.partial.__name__}: {error}; was the type of "
                f"workload {self._workload.name!r} changed while the job ran? Then resume the job"
            ) from error
        self._add(found, memoryview(partial).nbytes)

    def _add(self, found: Any, size: int) -> None:
        with calling(self._workload, "merge"):
            self.partial = self._workload.merge(self.partial, found)
        self._check_size(size, self.partial)

    def _take_done(self, rows: Iterable[ChunkRow]) -> Iterator[ChunkRow]:
        for row in rows:
            self._totals += row.totals
            if row.state is ChunkState.DONE:
                yield row

    def _check_size(self, more: int, partial: Any) -> None:
        """Measure the merged partial once enough was added that it may be too large."""
        self._added += more
        if self._added < max(self._most - self._checked_size, self._most // 4):
            return
        self._checked_size, self._added = len(msgspec.json.encode(partial)), 0
        if self._checked_size > self._most:
            raise FinishRefusedError(
                f"the merged partial of workload {self._workload.name!r} is {self._checked_size} bytes as JSON, the "
                f"limit is {self._most}: split the job by account, or set SLUICE_MERGED_MIB on instances that have the "
                "memory, then resume the job"
            )


#: Chunks of a segment: upper bound of the results that are read again after a crash.
SEGMENT_CHUNKS: Final = 512
#: Stored bytes of its results together; expanded they take six times that and more. A larger result is a segment by itself.
SEGMENT_BYTES: Final = 2 * 1024 * 1024
#: The most shards of the totals, if a job of several segments has a workload with `split`. Each is a partition of the table.
SHARDS: Final = 16
#: Packed bytes of the merged segments that are worth a shard: some 2,800 accounts, which take a partition a second and a half.
SHARD_BYTES: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class Gathered:
    """The merged partial of all chunks if there is one shard, the totals of all rows, and the requests of the steps."""

    partial: Any
    totals: Totals
    requests: Mapping[str, int] = field(default_factory=dict)
    shards: int = 1
    #: Of several shards: those that are not written yet; what all of them came to, if none is missing.
    missing: Sequence[int] = ()
    written: Sequence[ShardResult] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTools:
    """The parts that merging uses."""

    ledger: Ledger
    results: ContainerClient
    outputs: ContainerClient
    workloads: Workloads
    call: FinishCall
    merged_most: int = MERGED_MOST
    shard_bytes: int = SHARD_BYTES


@dataclass(frozen=True, slots=True)
class Segments:
    """Merges and joins the segments of jobs. One per process."""

    tools: SegmentTools
    segment_chunks: int = SEGMENT_CHUNKS
    shards: int = SHARDS
    apart: int = APART

    def gather(self, job: Job) -> Gathered | None:
        """Return the sum of all chunks. None: segments are missing, and their messages are on their way."""
        made = None
        if job.chunks <= self.segment_chunks:
            rows = list(self.tools.ledger.rows(job.job))
            made = cut(rows, self.segment_chunks, self.apart)
            if len(made) <= 1:
                # The usual job. It pays for no plan, no message and no blob.
                merged = make_merger(self.tools, job).merge(rows, 0)
                return Gathered(merged.partial, merged.totals)
        blobs = SegmentBlobs(self.tools.results, job.job, job.revision)
        plan = blobs.find_plan()
        if plan is None:
            plan, is_new = blobs.put_plan(self._plan(job, made))
            if is_new:
                self.tools.call.send_segments(job, range(len(plan.segments)), again=False)
                return None
        steps = blobs.list_steps(plan)
        if steps.missing:
            self.tools.call.send_segments(job, steps.missing, again=True)
            return None
        shards = plan.choose_shards(steps.size, self.tools.shard_bytes)
        if shards > 1:
            return _add_shards(blobs, plan, shards, [one for one in range(shards) if one not in steps.written])
        return self._join(job, blobs, plan)

    def _plan(self, job: Job, made: list[tuple[int, int]] | None) -> FinishPlan:
        segments = made or cut(self.tools.ledger.rows(job.job), self.segment_chunks, self.apart)
        is_split = len(segments) > 1 and has_split(self.tools.workloads.find(job.workload))
        return FinishPlan.make(segments, self.shards if is_split else 1)

    def _join(self, job: Job, blobs: SegmentBlobs, plan: FinishPlan) -> Gathered:
        merger, totals, requests = make_merger(self.tools, job), Totals(), Counter[str]()
        for segment in blobs.read_cuts(plan, range(plan.cuts_of_each)):
            for partial in segment.partials:
                merger.add(partial)
            totals += segment.totals
            requests.update(segment.requests)
        return Gathered(merger.partial, totals, requests)

    def merge(self, job: Job, message: Segment) -> bool:
        """Merge one segment. False: this revision has no such segment."""
        blobs = SegmentBlobs(self.tools.results, job.job, job.revision)
        with tally_requests() as requests:
            plan = blobs.find_plan()
            if plan is None or message.segment >= len(plan.segments):
                return False
            if not (message.again and message.segment not in blobs.list_steps(plan).missing):
                first, last = plan.segments[message.segment]
                rows = self.tools.ledger.rows_of(job.job, range(first, last + 1))
                merged = make_merger(self.tools, job).merge((rows[chunk] for chunk in sorted(rows)), message.segment)
                cuts = [merged.partial]
                if plan.cuts_of_each > 1:
                    cuts = split(self.tools.workloads.find(job.workload), merged.partial, plan.cuts_of_each)
                blobs.put(message.segment, merged.totals, cuts, charges(requests))
        if not blobs.list_steps(plan).missing:
            # Two may find the last one. The second message finds the end, or joins the same blobs.
            self.tools.call.send(job)
        return True

    def items_of(self, job: Job, message: FinishStep) -> int:
        """Return the upper bound of the transactions whose partials are merged, if chunks and shards are alike."""
        if isinstance(message, Shard):
            return -(-job.items // self.shards)
        if isinstance(message, Finish) or job.chunks <= self.segment_chunks:
            return job.items
        return -(-job.items * self.segment_chunks // job.chunks)


def make_merger(tools: SegmentTools, job: Job) -> Merger:
    """Return a merger for one step of this revision."""
    outputs = Outputs(tools.outputs, job.job, job.revision)
    return Merger(tools.results, outputs, tools.workloads.find(job.workload), merged_most=tools.merged_most)


def _add_shards(blobs: SegmentBlobs, plan: FinishPlan, shards: int, missing: Sequence[int]) -> Gathered:
    """Add up what the segments and the shards came to, without the partials."""
    totals, requests = Totals(), Counter[str]()
    for segment in blobs.read_heads(plan):
        totals += segment.totals
        requests.update(segment.requests)
    written = [] if missing else blobs.read_shards(shards)
    for one in written:
        requests.update(one.requests)
    return Gathered(None, totals, requests, shards, missing, written)


def cut(rows: Iterable[ChunkRow], most: int, apart: int = APART) -> list[tuple[int, int]]:
    """Cut rows, in the order of their chunks, into even segments. Return the first and last chunk of each.

    A segment has at most so many chunks, and SEGMENT_BYTES. If one is not enough, there are at least `apart`: the
    instances that are woken for them end at the same time.
    """
    sized = [(row.chunk, row.length or 0) for row in rows]
    whole = sum(max(1 / most, size / SEGMENT_BYTES) for _, size in sized)
    count = math.ceil(whole) if whole <= 1 else max(math.ceil(whole), apart)
    segments: list[tuple[int, int]] = []
    passed, taken, held = 0.0, 0, 0
    for chunk, size in sized:
        fits = taken < most and held + size <= SEGMENT_BYTES
        if segments and fits and passed * count < len(segments) * whole:
            segments[-1] = segments[-1][0], chunk
            taken, held = taken + 1, held + size
        else:
            segments.append((chunk, chunk))
            taken, held = 1, size
        passed += max(1 / most, size / SEGMENT_BYTES)
    return segments


def check_rejected(job: Job, parts: Iterable[OutputPart]) -> list[OutputPart]:
    """Return the parts if each rejected transaction is in them once.

    Another version of Sluice may have cut the same revision in another way before it was stopped. Its parts stay.
    """
    found, wanted = list(parts), job.totals.rejected.items
    lines = sum(part.items for part in found if part.name.startswith(REJECTED))
    if lines != wanted:
        raise FinishRefusedError(
            f"revision {job.revision} of job {job.job!r} has {lines} rejected lines in its outputs, and {wanted} "
            "transactions were rejected: resume the job, the next revision takes nothing from this one"
        )
    return found
