"""Merges the results of a job: in this process if they are one segment, else each segment as a work message.

    finish      cuts the rows into segments, writes the plan, sends a message for each segment.
    segment n   writes rejected parts, then its blob, in as many slices as the plan has shards. The step that finds all blobs sends `finish`.
    finish      joins the blobs; or leaves them to shards, if they are large and the workload can split its partial by account.

Only the blobs tell how far it is. So each step may be lost, doubled or killed. The tick sends `finish`, which sends the
messages of missing segments again. A late step of an older revision writes into the folder of that revision.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from azure.storage.blob import ContainerClient

from shared.azure import charges, tally_requests
from shared.errors import FinishRefusedError
from shared.ledger import ChunkRow, Job, Ledger, Totals
from shared.messages import Finish, FinishStep, Segment, Shard
from shared.pipeline.finish_plan import FinishPlan
from shared.pipeline.finish_request import APART, FinishCall
from shared.pipeline.merge import MERGED_MOST, REJECTED, Merger
from shared.pipeline.outputs import OutputPart, Outputs
from shared.pipeline.segment_blobs import SegmentBlobs, ShardResult
from shared.workloads import Workloads, has_split, split

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
        for segment in blobs.read_slices(plan, range(plan.pieces)):
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
                slices = [merged.partial]
                if plan.pieces > 1:
                    slices = split(self.tools.workloads.find(job.workload), merged.partial, plan.pieces)
                blobs.put(message.segment, merged.totals, slices, charges(requests))
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
    """Return a merger for one piece of this revision."""
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
