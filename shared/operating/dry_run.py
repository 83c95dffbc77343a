"""A dry run: stored chunks of a job run in this process, by the workloads that it has loaded. It writes nothing.

What each chunk comes to is compared with its result, one chunk after the other. Then the totals are compared: both sides
are merged and finished by the same code. Of all chunks of a finished job, those that were stored are the other side, so
partials of another form do not matter.

Two merged partials are held at most, each within a bound. A chunk that fails is counted, and left out of both sides. One
without a result has nothing to be compared with, and is not run: a parked one may have killed its worker.
"""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import msgspec
from azure.storage.blob import ContainerClient

from shared.errors import (
    CallsOutsideError,
    DryRunError,
    JobStateError,
    NoSlotError,
    ResultRefusedError,
    StorageUnavailableError,
)
from shared.ledger import ChunkState, Job, JobState, Ledger, Portion, read_portion
from shared.messages import ChunkMessage
from shared.operating.differences import (
    Counted,
    LineChange,
    LineSum,
    RejectionChange,
    Sides,
    TotalsDifference,
    compare_lines,
    compare_rejections,
    compare_totals,
    hold_totals,
    is_same_portion,
)
from shared.operating.job_acts import WRITTEN, OutputKind, OutputReader, read_total
from shared.parked import cause_of, count_left
from shared.payload import Limits, ReadChunk
from shared.pipeline import (
    LINES,
    PROCESS,
    AnyPlan,
    ChunkResult,
    MergedPartial,
    Opened,
    PlanStore,
    Ran,
    Stream,
    pack_result,
    read_lines,
    read_partial,
    read_plan,
    read_results,
    row_of_total,
    run_in_parts,
)
from shared.workloads import (
    AnyWorkload,
    Calls,
    Line,
    Turns,
    calling,
    has_limits,
    has_lines,
    is_waiting,
    items_of,
    raise_first,
)
from shared.zstd import unpack

#: Chunks whose rows are read together.
AT_ONCE: Final = 500
_CHOICE: Final = re.compile(r"([0-9]{1,6})|([0-9]{1,3}(?:\.[0-9]{1,6})?)%")
_WHOLE: Final = Decimal(100)
_FEWER: Final = "compare fewer chunks, or set SLUICE_MERGED_MIB here if there is the memory"


def choose_chunks(wanted: str, chunks: int) -> Sequence[int]:
    """Return the numbers of evenly spaced chunks: `all`, so many, or a share such as `1%`, of which there is at least one."""
    if wanted == "all":
        return range(chunks)
    found = _CHOICE.fullmatch(wanted)
    number = Decimal(found[1] or found[2]) if found else Decimal()
    if found is None or not number or (found[2] and number > _WHOLE):
        raise ValueError(f"{wanted!r} names no chunks: write a number of them, a share such as 1%, or all")
    count = min(chunks, int(number) if found[1] else math.ceil(number * chunks / _WHOLE))
    return [place * chunks // count for place in range(count)]


@dataclass(frozen=True, slots=True)
class ChunkDifference:
    """A chunk that comes to something else than its result."""

    chunk: int
    accepted: Sides[Portion]
    rejected: Sides[Portion]
    #: Transactions that are rejected otherwise, and lines that are others.
    rejections: int
    lines: int


@dataclass(frozen=True, slots=True)
class ChunkFailure:
    """A chunk that fails: how many of its transactions, the number of the first one, and its error.

    The number is None where the chunk fails as a whole.
    """

    chunk: int
    failed: int
    items: int
    number: int | None
    found: str
    place: str


@dataclass(frozen=True, slots=True)
class MissingResult:
    """A chunk without a result: why it is parked. None: it has not ended."""

    chunk: int
    parked: str | None


@dataclass(slots=True, kw_only=True)
class DryRun:
    """How the chunks of a job came out, beside their results."""

    job: str
    revision: int
    workload: str
    chunks: int
    chosen: int
    #: True: the other side of the totals are those that were stored.
    is_whole: bool
    compared: int = 0
    transactions: int = 0
    cpu_seconds: float = 0.0
    #: Of the chunks that were compared.
    accepted: Sides[Portion] = field(default_factory=lambda: Sides(Portion(), Portion()))
    rejected: Sides[Portion] = field(default_factory=lambda: Sides(Portion(), Portion()))
    line_counts: Sides[int] = field(default_factory=lambda: Sides(0, 0))
    differing: Counted[ChunkDifference] = field(default_factory=Counted)
    failures: Counted[ChunkFailure] = field(default_factory=Counted)
    missing: Counted[MissingResult] = field(default_factory=Counted)
    rejections: Counted[RejectionChange] = field(default_factory=Counted)
    lines: Counted[LineChange] = field(default_factory=Counted)
    #: The totals and output lines that `finish` yields. None: not compared, because chunks failed.
    totals: TotalsDifference | None = None
    output: Sides[LineSum] | None = None

    @property
    def differs(self) -> bool:
        """True if anything is not as it was."""
        has_other_totals = self.totals is not None and bool(self.totals.changes)
        has_other_output = self.output is not None and not self.output.now.is_same(self.output.before)
        return bool(self.differing.count or self.failures.count) or has_other_totals or has_other_output


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunner:
    """Runs chunks of jobs without writing. One request for the job, one for its plan, and one or two for each chunk."""

    ledger: Ledger
    plans: PlanStore
    read: ReadChunk
    results: ContainerClient
    outputs: OutputReader
    #: Gives the turns of a chunk with limits. Those lease what every instance leases, which is all that is ever written.
    pace: Callable[[AnyWorkload], AbstractContextManager[Turns]]
    merged_most: int
    limits: Limits = field(default_factory=Limits)
    cpu: Callable[[], float] = time.process_time

    def run(
        self,
        job: Job,
        workload: AnyWorkload,
        wanted: str,
        *,
        may_call: bool = False,
        report: Callable[[int, int], object] = lambda _done, _of: None,
    ) -> DryRun:
        """Run the wanted chunks of a job. `may_call`: also by a workload that calls others. `report` learns of each chunk.

        Raises JobStateError for a job without a plan or a payload, and DryRunError where nothing can be compared.
        """
        began, plan = self.cpu(), self._read_plan(job)
        if not may_call and (why := _find_calls(workload)):
            raise CallsOutsideError(f"workload {workload.name!r} {why}, so it may act outside: add --calls-outside")
        chosen = choose_chunks(wanted, len(plan.chunks))
        comparison = _Comparison(self, job, plan, workload, chosen)
        comparison.compare_chunks(report)
        found = comparison.found
        if not (found.compared or found.failures.count):
            raise DryRunError(
                f"none of the {len(chosen)} chosen chunks of job {job.job!r} has a result to compare with: the job is "
                f"{job.state.value}, {job.done} of its {job.chunks} chunks are done"
            )
        comparison.compare_totals()
        self._check_unchanged(job, found)
        found.cpu_seconds = self.cpu() - began
        return found

    def _read_plan(self, job: Job) -> AnyPlan:
        if job.state is JobState.ERASED:
            raise JobStateError(f"job {job.job!r} was erased: nothing of it is left to run")
        if job.state is JobState.BURIED:
            ended = f"it ended on {job.finished_at:%Y-%m-%d}, and " if job.finished_at else ""
            raise JobStateError(
                f"job {job.job!r} is buried: {ended}its payload was removed at the end of its retention"
            )
        if job.plan is None or job.id_base is None:
            raise JobStateError(
                f"job {job.job!r} is {job.state.value}: it has no plan yet, so there is no chunk to run"
            )
        return read_plan(self.plans, self.ledger, job)

    def _check_unchanged(self, job: Job, found: DryRun) -> None:
        """Raise if the stored totals are of a newer revision than the results may be."""
        now = self.ledger.read(job.job) if found.is_whole else job
        if now is None or (now.revision, now.state) != (job.revision, job.state):
            raise DryRunError(f"job {job.job!r} went on meanwhile, from revision {job.revision}: do it again")


def _find_calls(workload: AnyWorkload) -> str | None:
    if is_waiting(workload):
        return "waits for others in its map"
    return "has limits for its calls" if has_limits(workload) else None


class _Comparison:
    """One dry run."""

    def __init__(self, tools: DryRunner, job: Job, plan: AnyPlan, workload: AnyWorkload, chosen: Sequence[int]) -> None:
        self._tools, self._job, self._plan, self._workload, self._chosen = tools, job, plan, workload, chosen
        is_whole = len(chosen) == len(plan.chunks) and job.state in WRITTEN
        before, now = (MergedPartial(workload, tools.merged_most, _FEWER) for _ in range(2))
        self._merged = Sides(before, now)
        self.found = DryRun(
            job=job.job,
            revision=job.revision,
            workload=workload.name,
            chunks=len(plan.chunks),
            chosen=len(chosen),
            is_whole=is_whole,
        )

    def compare_chunks(self, report: Callable[[int, int], object]) -> None:
        """Run each chunk that has a result."""
        passed = 0
        for start in range(0, len(self._chosen), AT_ONCE):
            batch = self._chosen[start : start + AT_ONCE]
            rows = self._tools.ledger.rows_of(self._job.job, batch)
            rows = {number: row for number, row in rows.items() if self._job.counts(row)}
            done = [rows[number] for number in batch if number in rows and rows[number].state is ChunkState.DONE]
            has_result = {row.chunk for row in done}
            for number in (one for one in batch if one not in has_result):
                self.found.missing.add(MissingResult(number, rows[number].reason if number in rows else None))
            passed += len(batch) - len(done)
            for opened in read_results(self._tools.results, done):
                self._compare(opened)
                passed += 1
                report(passed, len(self._chosen))

    def _compare(self, opened: Opened) -> None:
        message = self._plan.message(opened.row.chunk, self._job.id_base or 0, opened.row.revision)
        try:
            ran, result, partial = self._run(message)
        except NoSlotError as error:
            raise DryRunError(f"other processes have {error.waits_for}: try again when they are done") from error
        except StorageUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - user code: it would fail in a worker, too
            self.found.failures.add(_describe_failure(message, error))
            return
        self._compare_result(opened, ran)
        if not self.found.is_whole:
            old = self._read_before(opened)
            self._merged.before.add(old, memoryview(opened.result.partial).nbytes)
        self._merged.now.add(partial, memoryview(result.partial).nbytes)

    def _run(self, message: ChunkMessage) -> tuple[Ran, ChunkResult, Any]:
        """Run a chunk as a worker does, and return its partial as it comes back from its stored form."""
        tools, workload = self._tools, self._workload
        pacing = tools.pace(workload) if has_limits(workload) else nullcontext()
        with pacing as turns, tools.read(message) as parts:
            ran = run_in_parts(
                workload,
                parts,
                message.first_id,
                tools.limits,
                makes_lines=has_lines(workload),
                calls=Calls(turns=turns, seconds=math.inf),
            )
        raise_first(ran.left, message.items)
        result = pack_result(message, ran, tools.limits).stored.result
        return ran, result, read_partial(result, workload.partial)

    def _read_before(self, opened: Opened) -> Any:
        try:
            return read_partial(opened.result, self._workload.partial)
        except ResultRefusedError as error:
            when = "" if self._job.state in WRITTEN else ", once the job has ended"
            raise DryRunError(
                f"chunk {opened.row.chunk} of job {self._job.job!r}: the partial has another form than that of workload "
                f"{self._workload.name!r} here: compare with --chunks all{when}"
            ) from error

    def _compare_result(self, opened: Opened, ran: Ran) -> None:
        found, row = self.found, opened.row
        accepted = Sides(row.totals.accepted, read_portion(ran.accepted))
        rejected = Sides(row.totals.rejected, read_portion(ran.rejected))
        found.accepted, found.rejected = _add(found.accepted, accepted), _add(found.rejected, rejected)
        found.compared += 1
        found.transactions += row.totals.items
        before = found.rejections.count, found.lines.count
        for one in compare_rejections(b"".join(opened.rejections), ran.rejections):
            found.rejections.add(one)
        for line in self._compare_lines(opened, ran.streams.get(LINES)):
            found.lines.add(line)
        rejections, lines = found.rejections.count - before[0], found.lines.count - before[1]
        if rejections or lines or not (is_same_portion(accepted) and is_same_portion(rejected)):
            found.differing.add(ChunkDifference(row.chunk, accepted, rejected, rejections, lines))

    def _compare_lines(self, opened: Opened, stream: Stream | None) -> Iterator[LineChange]:
        old, new = opened.result.streams.get(LINES), None if stream is None else stream.head
        counts = self.found.line_counts
        self.found.line_counts = Sides(
            counts.before + (0 if old is None else old.items), counts.now + (0 if new is None else new.items)
        )
        # Another version of zstd packs the same lines otherwise.
        if (None if old is None else old.sha256) != (None if new is None else new.sha256):
            before = () if old is None else _unpack_lines(one for _, one in read_lines(self._tools.results, opened))
            now = () if stream is None else _unpack_lines(_cut_stream(stream))
            yield from compare_lines(opened.row.chunk, before, now)

    def compare_totals(self) -> None:
        """Finish both sides, or take what the job's finish has stored."""
        found = self.found
        if not found.compared or (found.is_whole and found.failures.count):
            return
        lines = Sides(LineSum(), LineSum())
        now = hold_totals(self._job.job, self._finish(self._merged.now.partial, lines.now))
        before = self._read_stored() if found.is_whole else self._finish(self._merged.before.partial, lines.before)
        found.totals, found.output = compare_totals(before, now), lines
        if found.is_whole:
            for line in _split_lines(self._tools.outputs.read(self._job, OutputKind.OUTPUT)):
                lines.before.add(line)

    def _finish(self, partial: Any, lines: LineSum) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the totals of a merged partial as they would be stored, and add its lines up."""
        for item in items_of(self._workload, partial):
            if isinstance(item, Line):
                with calling(self._workload, "finish"):
                    text = msgspec.json.encode(item.content)
                for line in text.split(b"\n"):
                    lines.add(line)
            else:
                yield _split_total(read_total(row_of_total(self._job.job, self._job.revision, item)))

    def _read_stored(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        return map(_split_total, self._tools.outputs.list_totals(self._job))


def _split_total(total: dict[str, Any]) -> tuple[str, Mapping[str, Any]]:
    del total["revision"]
    return total.pop("account"), total


def _add(sides: Sides[Portion], more: Sides[Portion]) -> Sides[Portion]:
    return Sides(sides.before + more.before, sides.now + more.now)


def _describe_failure(message: ChunkMessage, error: Exception) -> ChunkFailure:
    cause = cause_of(error, PROCESS, "")
    failed = count_left(error).left
    return ChunkFailure(message.chunk, failed, message.items, cause.failed_item, cause.found, cause.place)


def _cut_stream(stream: Stream) -> Iterator[bytes]:
    stream.content.seek(0)
    for frame in stream.head.list_frames():
        yield stream.content.read(frame.length)


def _unpack_lines(frames: Iterable[bytes]) -> Iterator[bytes]:
    for frame in frames:
        yield from unpack(frame).split(b"\n")[:-1]


def _split_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
