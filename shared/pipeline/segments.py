"""Merges the results of a job: in this process if they are one segment, else each segment as a work message.

    finish      cuts the rows into segments, writes the plan, sends a message for each segment.
    segment n   writes rejected parts, then its blob, in as many cuts as the plan says. The step that finds all blobs sends `finish`.
    finish      joins the blobs; or leaves them to shards, if they are large and the workload can split its partial by account.

Only the blobs tell how far it is. So each step may be lost, doubled or killed. The tick sends `finish`, which sends the
messages of missing segments again. A late step of an older revision writes into the folder of that revision.

`Merger` joins the partials of neighbouring chunks in the order of their numbers. Memory does not grow with the number of chunks: it holds one merged partial and a window of results. Rejected transactions may be
as many as the transactions, so their stored lines are copied without decoding.

What merges by account is never larger than its partials together. So segments and cuts are bounded by those, and their
memory is known beforehand. A workload without `split` has a bound for its one merged partial instead.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, NamedTuple

import msgspec
from azure.storage.blob import ContainerClient
from msgspec import Raw

from shared.azure import charges, tally_requests
from shared.clock import Clock
from shared.errors import FinishRefusedError, ResultRefusedError
from shared.ledger import (
    MERGED_MOST,
    ChunkRow,
    ChunkState,
    Job,
    Ledger,
    Totals,
)
from shared.memory import Lanes
from shared.messages import Segment
from shared.payload import LARGE, LARGE_FINISHES, SMALL_FINISHES, of_finish
from shared.pipeline.dispatch import APART, FinishCall
from shared.pipeline.finish_blobs import SHARDS, SPAN_BYTES, FinishPlan, SegmentBlobs, ShardResult, Steps
from shared.pipeline.line_parts import LineParts
from shared.pipeline.outputs import OutputPart, Outputs, PartWriter
from shared.pipeline.results import read_parked, read_partial, read_results
from shared.pipeline.streams import LINES, PARKED
from shared.telemetry import contain
from shared.versions import decode
from shared.workloads import AnyWorkload, Workloads, calling, has_split, split

#: How the names of parts with rejected transactions begin. Those with transactions that were set aside begin as their stream.
REJECTED: Final = "rejected"


@dataclass(frozen=True, slots=True)
class Merged:
    """All partials merged, the totals of all rows, added up again from the rows, and the lines of their transactions."""

    partial: Any
    totals: Totals
    lines: int


class MergedPartial:
    """Partials merged into one, within a bound of its bytes as JSON."""

    def __init__(self, workload: AnyWorkload, most: float, remedy: str) -> None:
        self._workload, self._most, self._remedy = workload, most, remedy
        #: Bytes of the merged partial at its last check, and of the partials merged since.
        self._checked_size = self._added = 0
        with calling(workload, "combine"):
            self.partial: Any = workload.combine([])

    def add(self, found: Any, size: int) -> None:
        """Merge a partial of so many bytes as JSON."""
        with calling(self._workload, "merge"):
            self.partial = self._workload.merge(self.partial, found)
        self._check_size(size)

    def _check_size(self, more: int) -> None:
        """Measure the merged partial once enough was added that it may be too large."""
        self._added += more
        if self._added < max(self._most - self._checked_size, self._most // 4):
            return
        self._checked_size, self._added = len(msgspec.json.encode(self.partial)), 0
        if self._checked_size > self._most:
            raise FinishRefusedError(
                f"the merged partial of workload {self._workload.name!r} is {self._checked_size} bytes as JSON, the "
                f"limit is {self._most}: {self._remedy}"
            )


_LARGER: Final = (
    "split the job by account, or set SLUICE_MERGED_MIB on instances that have the memory, then resume the job"
)


class Merger:
    """Merges partials of one revision of a job, by its workload."""

    def __init__(
        self, results: ContainerClient, outputs: Outputs, workload: AnyWorkload, *, merged_most: int = MERGED_MOST
    ) -> None:
        self._results, self._outputs, self._workload = results, outputs, workload
        # A workload with `split` has its bound by the cuts of its plan.
        self._totals, most = Totals(), math.inf if has_split(workload) else merged_most
        self._merged = MergedPartial(workload, most, _LARGER)

    @property
    def partial(self) -> Any:
        """All partials so far, merged."""
        return self._merged.partial

    def merge(self, rows: Iterable[ChunkRow], segment: int) -> Merged:
        """Merge the partials of the done rows, and write their rejected transactions under the number of the segment."""
        # A segment that is merged again writes the same names.
        rejected, aside = (PartWriter(self._outputs, f"{name}-{segment:06}") for name in (REJECTED, PARKED))
        made, lines = None, 0
        for opened in read_results(self._results, self._take_done(rows)):
            result = opened.result
            self._merged.add(read_partial(result, self._workload.partial), memoryview(result.partial).nbytes)
            for line in opened.rejections:
                rejected.write_line(line)
            for line in read_parked(opened):
                aside.write_line(line)
            if LINES in result.streams:
                made = made or LineParts(self._results, self._outputs, segment)
                lines += made.add(opened)
        rejected.close()
        aside.close()
        if made is not None:
            made.close()
        return Merged(self.partial, self._totals, lines)

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
        self._merged.add(found, memoryview(partial).nbytes)

    def _take_done(self, rows: Iterable[ChunkRow]) -> Iterator[ChunkRow]:
        for row in rows:
            self._totals += row.totals
            if row.state is ChunkState.DONE:
                yield row


#: Chunks of a segment: upper bound of the results that are read again after a crash.
SEGMENT_CHUNKS: Final = 512
#: Stored bytes of its results together; expanded they take six times that and more. A larger result is a segment by itself.
SEGMENT_BYTES: Final = 2 * 1024 * 1024
#: Its partials together, as JSON. What merges by account is never larger than that.
SEGMENT_PARTIAL: Final = 12 * 1024 * 1024
#: Packed bytes of its lines, which are copied without being unpacked.
SEGMENT_LINES: Final = 16 * 1024 * 1024
#: Partials of a job, together, up to which it has as many cuts as shards; above, the bytes of a cut and the most cuts.
CUT_ABOVE: Final = 256 * 1024 * 1024
CUT_PARTIAL: Final = 4 * 1024 * 1024
CUTS_MOST: Final = 4096
#: A shard with a newer span than this is being written.
FRESH: Final = timedelta(minutes=3)
#: Packed bytes of the merged segments that are worth a shard: some 2,800 accounts, which take a partition a second and a half.
SHARD_BYTES: Final = 32 * 1024


class Weight(NamedTuple):
    """The share of a chunk in a segment: its packed bytes without its lines, those of its partial, and those of its lines."""

    chunk: int
    length: int
    partial: int
    lines: int

    def part_of(self, most: int) -> float:
        """Return which part of a segment it is, of which a segment has at most so many."""
        return max(1 / most, self.length / SEGMENT_BYTES, self.partial / SEGMENT_PARTIAL, self.lines / SEGMENT_LINES)


def weigh(row: ChunkRow) -> Weight:
    """Return the share of a chunk in a segment."""
    lines = row.lines or 0
    return Weight(row.chunk, (row.length or 0) - lines, row.partial_bytes, lines)


@dataclass(frozen=True, slots=True)
class Gathered:
    """The merged partial of all chunks if there is one shard, the totals of all rows, and the requests of the steps."""

    partial: Any
    totals: Totals
    #: The lines of its transactions, which its parts must have.
    lines: int
    requests: Mapping[str, int] = field(default_factory=dict)
    shards: int = 1
    #: Of several shards: those that are not written yet, and those of them without a recent span.
    missing: Sequence[int] = ()
    silent: Sequence[int] = ()
    #: What all of them came to, if none is missing.
    written: Sequence[ShardResult] = ()
    plan: FinishPlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTools:
    """The parts that merging uses."""

    ledger: Ledger
    results: ContainerClient
    outputs: ContainerClient
    workloads: Workloads
    call: FinishCall
    clock: Clock
    merged_most: int = MERGED_MOST
    shard_bytes: int = SHARD_BYTES
    span_bytes: int = SPAN_BYTES
    memory: Lanes = field(default_factory=lambda: Lanes(SMALL_FINISHES, LARGE_FINISHES, LARGE))


@dataclass(frozen=True, slots=True)
class Segments:
    """Merges and joins the segments of jobs. One per process."""

    tools: SegmentTools
    segment_chunks: int = SEGMENT_CHUNKS
    shards: int = SHARDS
    apart: int = APART
    cut_above: int = CUT_ABOVE

    def gather(self, job: Job, room: ExitStack) -> Gathered | None:
        """Return the sum of all chunks. None: segments are missing, and their messages are on their way.

        What it merged has its memory in `room`.
        """
        made: list[Weight] | None = None
        if job.chunks <= self.segment_chunks:
            rows = list(filter(job.counts, self.tools.ledger.rows(job.job)))
            made = [weigh(row) for row in rows]
            if len(cut(made, self.segment_chunks, self.apart)) <= 1:
                # The usual job. It pays for no plan, no message and no blob.
                room.enter_context(self.tools.memory.hold(of_rows(rows)))
                merged = make_merger(self.tools, job).merge(rows, 0)
                return Gathered(merged.partial, merged.totals, merged.lines)
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
        if plan.has_spans:
            return self._add_spans(blobs, plan, steps)
        shards = plan.choose_shards(steps.size, self.tools.shard_bytes)
        if shards > 1:
            return _add_shards(blobs, plan, shards, [one for one in range(shards) if one not in steps.written])
        room.enter_context(self.tools.memory.hold(of_packed(steps.size, self.tools.merged_most)))
        return self._join(job, blobs, plan)

    def _plan(self, job: Job, made: list[Weight] | None) -> FinishPlan:
        rows = made or [weigh(row) for row in self.tools.ledger.rows(job.job) if job.counts(row)]
        segments = cut(rows, self.segment_chunks, self.apart)
        if len(segments) <= 1 or not has_split(self.tools.workloads.find(job.workload)):
            return FinishPlan.make(segments, 1, is_rerun=bool(job.run_from))
        cuts = choose_cuts(sum(row.partial for row in rows), self.cut_above, self.shards)
        return FinishPlan.make(segments, cuts, is_rerun=bool(job.run_from))

    def _add_spans(self, blobs: SegmentBlobs, plan: FinishPlan, steps: Steps) -> Gathered:
        """Add up what the segments and the spans came to, without the partials."""
        places, now = blobs.put_places(plan, self.tools.span_bytes), self.tools.clock.now()
        missing = places.find_missing(plan, steps)
        newest = {shard: number for shard, number in sorted(steps.spans) if shard in missing}
        silent = [one for one in missing if one not in newest or now - blobs.find_span(one, newest[one]).at >= FRESH]
        written = [] if missing else [blobs.find_span(*one) for one in places.last_spans(plan)]
        requests = Counter(places.requests)
        for one in written:
            requests.update(one.requests)
        return Gathered(None, places.read_totals(), places.lines or 0, requests, SHARDS, missing, silent, written, plan)

    def _join(self, job: Job, blobs: SegmentBlobs, plan: FinishPlan) -> Gathered:
        merger, totals, requests, lines = make_merger(self.tools, job), Totals(), Counter[str](), 0
        for segment in blobs.read_cuts(plan, range(plan.cuts_of_each)):
            for partial in segment.partials:
                merger.add(partial)
            totals += segment.totals
            requests.update(segment.requests)
            lines += segment.lines
        return Gathered(merger.partial, totals, lines, requests)

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
                with self.tools.memory.hold(of_rows(rows.values())):
                    merged = make_merger(self.tools, job).merge(
                        filter(job.counts, (rows[chunk] for chunk in sorted(rows))), message.segment
                    )
                    cuts = self._split(job, plan, merged.partial)
                    blobs.put(message.segment, merged.totals, cuts, charges(requests), lines=merged.lines)
        if not blobs.list_steps(plan).missing:
            # Two may find the last one. The second message finds the end, or joins the same blobs.
            self.tools.call.send(job)
        return True

    def _split(self, job: Job, plan: FinishPlan, partial: Any) -> list[Any]:
        if plan.cuts_of_each == 1:
            return [partial]
        cuts = split(self.tools.workloads.find(job.workload), partial, plan.cuts_of_each)
        return [cuts[number] for number in plan.arrange()] if plan.has_spans else cuts


def make_merger(tools: SegmentTools, job: Job) -> Merger:
    """Return a merger for one step of this revision."""
    outputs = Outputs(tools.outputs, job.job, job.revision)
    return Merger(tools.results, outputs, tools.workloads.find(job.workload), merged_most=tools.merged_most)


def _add_shards(blobs: SegmentBlobs, plan: FinishPlan, shards: int, missing: Sequence[int]) -> Gathered:
    """Add up what the segments and the shards came to, without the partials."""
    totals, requests, lines = Totals(), Counter[str](), 0
    for segment in blobs.read_heads(plan):
        totals += segment.totals
        requests.update(segment.requests)
        lines += segment.lines
    written = [] if missing else blobs.read_shards(shards)
    for one in written:
        requests.update(one.requests)
    return Gathered(None, totals, lines, requests, shards, missing, missing, written, plan)


def of_rows(rows: Iterable[ChunkRow]) -> int:
    """Return the memory of merging the results of these chunks."""
    return of_finish(sum(row.partial_bytes for row in rows))


#: Bytes of JSON for a packed byte, at most: many accounts that are all alike.
_EXPANDS_MOST: Final = 50


def of_packed(packed: int, most: int) -> int:
    """Return the memory of merging so many packed bytes into a partial of at most `most` bytes."""
    return of_finish(min(packed * _EXPANDS_MOST, most))


def choose_cuts(partial: int, above: int, shards: int) -> int:
    """Return the cuts of each segment: one for a shard, or so many that a cut of the whole has CUT_PARTIAL at most."""
    if partial <= above:
        return shards
    return min(CUTS_MOST, max(2 * SHARDS, 1 << (-(-partial // CUT_PARTIAL) - 1).bit_length()))


def cut(rows: Sequence[Weight], most: int, apart: int = APART) -> list[tuple[int, int]]:
    """Cut chunks, in their order, into even segments. Return the first and last chunk of each.

    A segment has at most so many chunks, SEGMENT_BYTES, SEGMENT_PARTIAL and SEGMENT_LINES. If one is not enough, there are at least
    `apart`: the instances that are woken for them end at the same time.
    """
    whole = sum(row.part_of(most) for row in rows)
    count = math.ceil(whole) if whole <= 1 else max(math.ceil(whole), apart)
    segments: list[tuple[int, int]] = []
    passed, taken, held, partial, lines = 0.0, 0, 0, 0, 0
    for row in rows:
        fits = (
            taken < most
            and held + row.length <= SEGMENT_BYTES
            and partial + row.partial <= SEGMENT_PARTIAL
            and lines + row.lines <= SEGMENT_LINES
        )
        if segments and fits and passed * count < len(segments) * whole:
            segments[-1] = segments[-1][0], row.chunk
            taken, held, partial, lines = taken + 1, held + row.length, partial + row.partial, lines + row.lines
        else:
            segments.append((row.chunk, row.chunk))
            taken, held, partial, lines = 1, row.length, row.partial, row.lines
        passed += row.part_of(most)
    return segments


def check_parts(job: Job, parts: Iterable[OutputPart], lines: int) -> list[OutputPart]:
    """Return the parts if each rejected transaction is in them once, each that was set aside, and so many lines of accepted ones.

    Another version of Sluice may have cut the same revision in another way before it was stopped. Its parts stay.
    """
    found, rejected = list(parts), job.totals.rejected.items
    for name, wanted, they in (
        (REJECTED, rejected, "transactions were rejected"),
        (PARKED, job.aside or 0, "transactions were parked one by one"),
        (LINES, lines, "were made of its transactions"),
    ):
        items = sum(part.items for part in found if part.name.startswith(f"{name}-"))
        if items != wanted:
            raise FinishRefusedError(
                f"revision {job.revision} of job {job.job!r} has {items} lines in its outputs {name!r}, and {wanted} "
                f"{they}: resume the job, the next revision takes nothing from this one"
            )
    return found
