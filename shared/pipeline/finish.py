"""The finish stage, for a job whose chunks have all ended.

It gathers the partials, checks that the job balances, then writes outputs and totals.

    finisher of revision 1            settler                      finisher of revision 2
    gathers, writes outputs/1
                                      credits a replayed chunk:
                                      revision 2, finish message
    totals: the fence is at 1         ..........................   takes the fence for 2
    totals: fenced off
    ends without a word                                            outputs/2, totals, complete

Outputs and segments are written once, each under its own name. Totals are written behind the fence, the end by the
job's ETag. So any number of finishers may run, stop and follow each other.

`Shards` writes the totals and the output lines: in one cut, or in shards by account, each a work message.

    finish      finds all segments, compares their totals with those of the job, sends a message for each shard.
    shard k     reads its cuts of each segment, compares the totals too, takes the fence of its own partition of the table,
                writes rows and lines, then its blob. The step that finds all blobs sends `finish`.
    finish      counts the blobs, then writes the manifest.

A shard of many cuts does so span after span, each with a blob. After a minute it sends its message anew, and that one goes on
at the first span without a blob. The rows of the spans before are known by the last blob, and the fence counts all rows. So
the difference says which rows of this span are there.

So no shard takes a fence for a job that does not add up, and the end waits for all. Late steps of an older revision are
refused by the fence of each partition.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from shared.azure import charges, tally_requests
from shared.errors import FencedOffError, FinishRefusedError, LedgerError, SignalNotSentError, StorageUnavailableError
from shared.grammar import run_partition, shard_partition
from shared.ledger import (
    BY_ITSELF,
    FINISHED,
    MERGED_MOST,
    Balance,
    Job,
    JobState,
    Ledger,
    Totals,
    Written,
    change,
    check_balance,
    counting,
    finish,
    pause,
)
from shared.messages import Completed, FinishStep, PortionMessage, Segment, Shard, encode
from shared.outbox import JOB_EVENTS, Outbox, OutgoingMessage
from shared.parked import Nature, nature_of
from shared.payload import of_finish
from shared.pending import Pointer
from shared.pipeline.finish_blobs import SPAN_BYTES, FinishPlan, SegmentBlobs, ShardResult, SpanRange, SpanResult, Steps
from shared.pipeline.outputs import OutputPart, Outputs, PartWriter, TotalsTable, TotalsWriter, manifest_of
from shared.pipeline.segments import (
    CUT_PARTIAL,
    Gathered,
    Segments,
    SegmentTools,
    check_parts,
    make_merger,
    of_packed,
)
from shared.telemetry import SILENT, Piece, Telemetry, describe_error, events, metrics, tell
from shared.workloads import Total, items_of, shard_of

#: How the names of parts with output lines begin.
OUTPUT: Final = "output"
#: Seconds after which a shard begins no span and gives its step back. The host ends a function after ten minutes.
SHARD_SECONDS: Final = 60.0
#: What a shard came to before its first span.
NOTHING: Final = ShardResult(totals=0, lines=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTools(SegmentTools):
    """The parts that publishing uses."""

    totals: TotalsTable


@dataclass(frozen=True, slots=True)
class Published:
    """The rows of totals of a revision, and the partitions that have them."""

    totals: int
    partitions: list[str]


@dataclass(frozen=True, slots=True)
class Shards:
    """Publishes what was gathered. One per process."""

    tools: ShardTools

    def publish(self, job: Job, gathered: Gathered) -> Published | None:
        """Write the totals and lines of a job that balances. None: shards are missing, and their messages are on their way."""
        if gathered.shards == 1:
            partition = run_partition(job.job, job.run_from)
            written = self._write(job, gathered.partial, partition, OUTPUT, 0, 1)
            return Published(written.totals, [partition])
        if gathered.missing:
            # None for a shard that is being written: its second message would do the same work.
            if gathered.silent:
                self.tools.call.send_shards(job, gathered.silent)
            return None
        outputs = Outputs(self.tools.outputs, job.job, job.revision)
        _check_lines(job, outputs.parts(), sum(one.lines for one in gathered.written))
        run = gathered.plan.find_run(job.run_from) if gathered.plan else job.run_from
        partitions = [shard_partition(job.job, number, run) for number in range(gathered.shards)]
        return Published(sum(one.totals for one in gathered.written), partitions)

    def write(self, job: Job, message: Shard) -> bool:
        """Write one shard. False: this revision has no such shard, or is not that far, or does not add up."""
        blobs = SegmentBlobs(self.tools.results, job.job, job.revision)
        with tally_requests() as requests:
            plan = blobs.find_plan()
            if plan is None:
                return False
            steps = blobs.list_steps(plan)
            shards = 1 if steps.missing else plan.choose_shards(steps.size, self.tools.shard_bytes)
            if shards == 1 or message.shard >= shards:
                return False
            if plan.has_spans:
                return _Spans(self.tools, job, blobs, plan, message.shard).write(steps)
            if message.shard not in steps.written:
                with self.tools.memory.hold(of_packed(steps.size // shards, MERGED_MOST)):
                    written = self._write_cuts(job, blobs, plan, message.shard, shards)
                if written is None:
                    return False
                blobs.put_shard(message.shard, written.totals, written.lines, charges(requests))
        if len(blobs.list_steps(plan).written) == shards:
            # Two may find the last one. The second message finds the end, or the same blobs.
            self.tools.call.send(job)
        return True

    def _write_cuts(
        self, job: Job, blobs: SegmentBlobs, plan: FinishPlan, shard: int, shards: int
    ) -> ShardResult | None:
        merger, totals = make_merger(self.tools, job), Totals()
        for segment in blobs.read_cuts(plan, range(shard, plan.cuts_of_each, shards)):
            for partial in segment.partials:
                merger.add(partial)
            totals += segment.totals
        if check_balance(job, totals).state is JobState.UNBALANCED:
            return None
        partition = shard_partition(job.job, shard, plan.find_run(job.run_from))
        return self._write(job, merger.partial, partition, f"{OUTPUT}-{shard:02}", shard, shards)

    def _write(  # noqa: PLR0913, PLR0917 - what is written, where, and which part of the whole it is
        self, job: Job, partial: Any, partition: str, name: str, shard: int, count: int
    ) -> ShardResult:
        writer = _Writer(self.tools, job, partition, name)
        writer.write(partial, shard, count)
        return writer.close()


class _Writer:
    """Writes the totals and the lines of merged partials, one after the other."""

    def __init__(self, tools: ShardTools, job: Job, partition: str, name: str, done: ShardResult = NOTHING) -> None:
        """Begin behind the rows of this partition that are done."""
        self._job, self._workload = job, tools.workloads.find(job.workload)
        self._parts = PartWriter(Outputs(tools.outputs, job.job, job.revision), name)
        self._totals = TotalsWriter(tools.totals, partition, job.revision, done.totals)
        self._lines = done.lines

    def write(self, partial: Any, place: int, count: int) -> None:
        """Write what a partial comes to. It is this shard, or this cut, of so many."""
        for item in items_of(self._workload, partial):
            if isinstance(item, Total):
                _check_shard(self._job, item, place, count)
                self._totals.write(item)
            else:
                self._parts.write(item.content)
                self._lines += 1
        # No account is in two cuts.
        self._totals.forget_accounts()

    def close(self) -> ShardResult:
        """Write the rest, and return the rows and lines so far."""
        self._parts.close()
        self._totals.close()
        return ShardResult(totals=self._totals.count, lines=self._lines)


@dataclass(frozen=True, slots=True)
class _Spans:
    """Publishes a shard span after span."""

    tools: ShardTools
    job: Job
    blobs: SegmentBlobs
    plan: FinishPlan
    shard: int

    def write(self, steps: Steps) -> bool:
        """Write the spans that are missing, as long as there is time. False: it is not known where they lie, or they do not add up."""
        places = self.blobs.find_places()
        if places is None or check_balance(self.job, places.read_totals()).state is JobState.UNBALANCED:
            return False
        spans, began = places.spans_of(self.plan, self.shard), self.tools.clock.monotonic()
        # They are written in their order, so all before the first missing one are there.
        first = next((number for number in range(len(spans)) if (self.shard, number) not in steps.spans), len(spans))
        done: ShardResult = self.blobs.find_span(self.shard, first - 1) if first else NOTHING
        for number, span in enumerate(spans[first:], first):
            if self.tools.clock.monotonic() - began >= SHARD_SECONDS:
                # A new message, and not this one once more: many deliveries would look like failures.
                self.tools.call.send_shards(self.job, [self.shard])
                return True
            with tally_requests() as requests, self.tools.memory.hold(of_finish(CUT_PARTIAL) + SPAN_BYTES):
                written = self._write_span(number, span, done)
                made, now = Counter(done.requests) + Counter(charges(requests)), self.tools.clock.now()
                done = SpanResult(totals=written.totals, lines=written.lines, requests=made, at=now)
                self.blobs.put_span(self.shard, number, done)
        if not places.find_missing(self.plan, self.blobs.list_steps(self.plan)):
            self.tools.call.send(self.job)
        return True

    def _write_span(self, number: int, span: SpanRange, done: ShardResult) -> ShardResult:
        name = f"{OUTPUT}-{self.shard:02}-{number:03}"
        partition = shard_partition(self.job.job, self.shard, self.plan.find_run(self.job.run_from))
        writer = _Writer(self.tools, self.job, partition, name, done)
        for one, partials in self.blobs.read_span(span):
            merger = make_merger(self.tools, self.job)
            for partial in partials:
                merger.add(partial)
            writer.write(merger.partial, one, self.plan.cuts)
        return writer.close()


def _check_shard(job: Job, total: Total, shard: int, count: int) -> None:
    # In two shards, an account would have two rows with a part of its amount each.
    if (right := shard_of(total.account, count)) != shard:
        raise FinishRefusedError(
            f"workload {job.workload!r} put account {total.account[:100]!r} of job {job.job!r} into shard {shard} of "
            f"{count}, and shard_of says {right}: let its split go by shard_of, deploy, then resume the job"
        )


def _check_lines(job: Job, parts: Iterable[OutputPart], wanted: int) -> None:
    """Raise if the parts have other lines than all shards wrote."""
    found = sum(part.items for part in parts if part.name.startswith(f"{OUTPUT}-"))
    if found != wanted:
        raise FinishRefusedError(
            f"revision {job.revision} of job {job.job!r} has {found} lines in its outputs, and its shards wrote {wanted}: "
            "resume the job, the next revision takes nothing from this one"
        )


class Ending(Enum):
    """How a finish message was handled."""

    #: The job is finished at this revision.
    FINISHED = "finished"
    #: It was finished before, or a newer revision has begun, or an operator has to act first.
    NOTHING_TO_DO = "nothing to do"
    #: Its segments are merged and its shards written first, or one of them was.
    MERGING = "merging"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishTools(ShardTools):
    """The parts that a finisher uses. One per process."""

    outbox: Outbox
    #: Notes how long the transactions of a finished job took.
    note_speed: Callable[[Job], object]
    #: Has the jobs look that wait for one that has ended.
    wake_waiters: Callable[[Job], object]
    telemetry: Telemetry = SILENT


class Finisher:
    """Handles the messages about finishes and their segments. Any number of instances may do so at once."""

    def __init__(self, tools: FinishTools) -> None:
        self._tools = tools
        self._segments, self._shards = Segments(tools), Shards(tools)

    def finish(self, message: FinishStep) -> Ending:
        """Finish the job at this revision, or merge one segment or write one shard of it. Safe to repeat and to stop anywhere.

        A permanent failure pauses the job with the problem, until an operator resumes it.
        """
        with counting():
            job = self._tools.ledger.read(message.job)
            if job is None or job.revision != message.revision or job.state is not JobState.FINISHING:
                return self._nothing_to_do(job, message)
            try:
                with self._tools.telemetry.span(Piece.FINISH, job.trace, job=job.job, revision=job.revision):
                    return self._take_step(job, message)
            except FencedOffError:
                return Ending.NOTHING_TO_DO
            except Exception as error:
                if nature_of(error) is Nature.PERMANENT or isinstance(error, LedgerError):
                    self.pause(message, error)
                raise

    def pause(self, message: FinishStep, error: Exception) -> None:
        """Pause a job whose outputs cannot be made, with the problem for an operator to read."""
        problem = f"revision {message.revision} cannot be finished: {type(error).__name__}: {error}"

        def decide(job: Job) -> Job:
            is_meant = job.state is JobState.FINISHING and job.revision == message.revision
            return pause(job, BY_ITSELF, problem) if is_meant else job

        job = change(
            self._tools.ledger,
            message.job,
            decide,
            tried=f"pause the job at revision {message.revision}",
        )
        if job is not None and job.state is JobState.PAUSED:
            tell(events.JOB_PAUSED, job=job.job, revision=job.revision, reason=describe_error(error))

    def _nothing_to_do(self, job: Job | None, message: FinishStep) -> Ending:
        state = None if job is None else job.state.value
        tell(events.FINISH_IGNORED, job=message.job, revision=message.revision, state=state)
        if job is not None and job.state in FINISHED:
            # Its finisher may have crashed before it sent the event.
            self._send_event(job.job)
            if job.waiters:
                self._tools.wake_waiters(job)
        return Ending.NOTHING_TO_DO

    def _take_step(self, job: Job, message: FinishStep) -> Ending:
        if isinstance(message, Segment):
            is_done = self._segments.merge(job, message)
        elif isinstance(message, Shard):
            is_done = self._shards.write(job, message)
        else:
            with ExitStack() as room:
                return self._finish(job, room)
        return Ending.MERGING if is_done else self._nothing_to_do(job, message)

    def _finish(self, job: Job, room: ExitStack) -> Ending:
        gathered = self._segments.gather(job, room)
        if gathered is None:
            return Ending.MERGING
        found = check_balance(job, gathered.totals)
        if found.state is not JobState.UNBALANCED:
            # Readers would take the outputs of an unbalanced job for its result.
            published = self._shards.publish(job, gathered)
            if published is None:
                return Ending.MERGING
            outputs = Outputs(self._tools.outputs, job.job, job.revision)
            parts = check_parts(job, outputs.parts(), gathered.lines)
            outputs.put_manifest(manifest_of(job, found, published.totals, published.partitions, parts))
        return self._end(job, found, gathered)

    def _end(self, job: Job, found: Balance, gathered: Gathered) -> Ending:
        pointer, is_mine = self._tools.outbox.point(job.job), False

        def decide(current: Job) -> Job | Written:
            nonlocal is_mine
            finished = finish(current, job.revision, found, self._tools.clock.now())
            is_mine = finished is not current
            if not is_mine:
                return current
            # The event is stored with the state that it announces.
            return Written(finished.add_requests(gathered.requests), messages=[event_of(finished)])

        # By the row that this finish began with: seldom has another one changed it since.
        ended = change(self._tools.ledger, job.job, decide, tried=f"finish revision {job.revision}", known=job)
        if ended is None or ended.state not in FINISHED or ended.revision != job.revision:
            return Ending.NOTHING_TO_DO
        _log_finished(ended)
        self._count(ended)
        # Another finisher may have sent the event. An event of a revision before may be unsent, and goes first.
        is_known = is_mine and ended.revision == 1
        self._send_event(job.job, pointer, [event_of(ended)] if is_known else None)
        if ended.waiters:
            self._tools.wake_waiters(ended)
        self._tools.note_speed(ended)
        return Ending.FINISHED

    def _count(self, job: Job) -> None:
        add, took = self._tools.telemetry.add, _took(job)
        add(metrics.JOBS, workload=job.workload, state=job.state.value)
        add(metrics.JOB_WAITED, took[0], workload=job.workload)
        add(metrics.JOB_SECONDS, took[1], workload=job.workload)

    def _send_event(
        self, job: str, pointer: Pointer | None = None, known: Sequence[OutgoingMessage] | None = None
    ) -> None:
        try:
            self._tools.outbox.flush(job, pointer, known)
        except (SignalNotSentError, StorageUnavailableError) as error:
            # The job is finished nevertheless; by the pointer the tick finds the event and sends it.
            tell(events.OUTBOX_UNSENT, job=job, error=describe_error(error))


def is_finishing(ledger: Ledger, job: str) -> bool:
    """Check whether a finisher may still be about to write the job's end."""
    found = ledger.read(job)
    return found is not None and found.state is JobState.FINISHING


def completed_message(job: Job) -> Completed:
    """Return the event of a finished job."""
    totals = job.totals
    return Completed(
        job=job.job,
        revision=job.revision,
        workload=job.workload,
        state=job.state.value,
        accepted=PortionMessage(items=totals.accepted.items),
        rejected=PortionMessage(items=totals.rejected.items),
        parked=PortionMessage(items=totals.parked.items),
    )


def event_of(job: Job) -> OutgoingMessage:
    """Return the event in its stored form, for the outbox. Each revision has its own."""
    return OutgoingMessage(f"{job.revision:09}", JOB_EVENTS, encode(completed_message(job)))


def _log_finished(job: Job) -> None:
    waited, ran = _took(job)
    tell(
        events.JOB_FINISHED,
        job=job.job,
        revision=job.revision,
        state=job.state.value,
        workload=job.workload,
        accepted=job.totals.accepted.items,
        rejected=job.totals.rejected.items,
        parked=job.totals.parked.items,
        waited_seconds=waited,
        ran_seconds=ran,
        work_ms=job.milliseconds,
        requests=dict(job.requests),
    )
    if job.state is JobState.UNBALANCED:
        tell(events.JOB_UNBALANCED, job=job.job, revision=job.revision)


def _took(job: Job) -> tuple[float, float]:
    # Seconds until its first chunk was put, and from then until its end. A rerun waits since a person wanted it.
    reruns = (one.at for one in job.story if job.run_from and one.revision == job.run_from)
    since = next(reruns, job.accepted_at)
    began, ended = job.started_at or since, job.finished_at or since
    return round((began - since).total_seconds(), 3), round((ended - began).total_seconds(), 3)
