"""The process stage: runs a chunk, stores its result and reports it to the ledger, or parks the message.

The order of the writes makes it safe to be killed anywhere. A small result travels in its message. If that may not have
arrived, the same bytes are stored, and the next delivery tells of them. A larger result is stored before the message
about it, and so is a parked entry. All this comes before the host deletes the work message.

`work_stages` are the stages `process` and `finish` for parking: their keys, and how their messages are put back.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, TypeAlias

import msgspec

from shared.azure import charges, tally_requests
from shared.clock import Clock
from shared.errors import (
    HaltedError,
    NewerVersionError,
    NoSlotError,
    RefusedError,
    ResultNotSentError,
    StorageUnavailableError,
)
from shared.grammar import is_job
from shared.ledger import FINISHED, MERGED_MOST, ChunkRow, Ledger
from shared.messages import (
    NO_PORTION,
    STREAMS_VERSION,
    VERSION,
    ChunkMessage,
    Delivery,
    FinishStep,
    FirstChunkMark,
    Internal,
    PortionMessage,
    Result,
    Segment,
    Shard,
    decode,
    unwrap,
)
from shared.parked import (
    ACCEPT,
    NO_JOB,
    SETTLED,
    Attempt,
    Claim,
    Deliveries,
    Done,
    Entry,
    Park,
    Parking,
    PutOnQueue,
    Stage,
    chunk_key,
    content_key,
    finish_key,
    identify_message,
    job_note,
    mark_again,
    mark_aside,
    read_message,
    segment_key,
    shard_key,
    transactions_key,
)
from shared.payload import Limits, ReadChunk
from shared.pipeline.aside import TRANSACTIONS, resume_from, set_aside
from shared.pipeline.call_limits import Paced, Turns
from shared.pipeline.halts import Halting
from shared.pipeline.outputs import Ran, run_in_parts
from shared.pipeline.results import QUEUE, ChunkResult, PackedResult, ResultStore, SendResult, StoredResult, pack_result
from shared.pipeline.settle import find_done, is_chunk_done
from shared.pipeline.so_far import SoFar, SoFarStore
from shared.refusals import DeliveryReason, refuse
from shared.telemetry import SILENT, Piece, Telemetry, events, metrics, tell
from shared.topology import is_work_queue
from shared.versions import LOOKS, check_message
from shared.workloads import AnyWorkload, Workloads, first_of, has_limits, has_split, is_waiting

#: Names of the stages; they are stored.
PROCESS: Final = "process"
FINISH: Final = "finish"
#: The first chunk estimates. It speaks up from so many times the bound of the merged partial.
ALARMING: Final = 2
#: A result has one and a half kibibytes beside its content.
LONGEST_REASON: Final = 200


def work_stages(ledger: Ledger, put: PutOnQueue, send: SendResult) -> tuple[Stage, Stage, Stage]:
    """Return the stages of the work queues: finishes with their segments and shards, what was set aside, chunks and all else."""
    finish = Stage(
        name=FINISH,
        # A finish message may also be on the bus, by mistake. Its entry belongs to its job nevertheless.
        reads=lambda queue: is_work_queue(queue) or queue == QUEUE,
        identify=_identify_finish,
        put_back=put,
        has_landed=lambda entry: _is_finished(ledger, entry),
        remedy="correct the workload or what it depends on, deploy, resume the job, then replay",
        wakes=True,
    )

    def report(entry: Entry, claim: Claim, body: bytes) -> None:
        if claim.chunk is not None and isinstance(message := read_message(body), ChunkMessage):
            # If its result is stored after all, the ledger prefers that one.
            send(make_parked_result(message, entry))

    def put_again(entry: Entry, body: bytes) -> None:
        # Its worker looks for its outcome so far.
        put(entry, mark_again(body))

    transactions = Stage(
        name=TRANSACTIONS,
        reads=is_work_queue,
        identify=_identify_aside,
        put_back=put_again,
        has_landed=lambda entry: _has_passed(ledger, entry),
        is_read_first=True,
        wakes=True,
    )
    process = Stage(
        name=PROCESS,
        reads=is_work_queue,
        identify=lambda delivery: identify_message(PROCESS, delivery.body),
        put_back=put_again,
        has_landed=lambda entry: is_chunk_done(ledger, entry.job, entry.chunk),
        on_parked=report,
        wakes=True,
    )
    return finish, transactions, process


def _identify_finish(delivery: Delivery) -> Claim | None:
    is_of_finish = isinstance(read_message(delivery.body), FinishStep)
    return identify_message(FINISH, delivery.body) if is_of_finish else None


def _identify_aside(delivery: Delivery) -> Claim | None:
    message = read_message(delivery.body)
    is_aside = isinstance(message, ChunkMessage) and message.aside
    return identify_message(TRANSACTIONS, delivery.body) if is_aside else None


def _has_passed(ledger: Ledger, entry: Entry) -> bool:
    """Check whether nothing of the chunk is set aside any more."""
    row = find_done(ledger, entry.job, entry.chunk)
    return row is not None and not row.aside


def _is_finished(ledger: Ledger, entry: Entry) -> bool:
    job = None if entry.job == NO_JOB else ledger.read(entry.job)
    return job is not None and job.state in FINISHED and job.revision >= (entry.revision or 0)


def make_parked_result(chunk: ChunkMessage, entry: Entry) -> Result:
    """Return the message to the ledger about a parked chunk. Its lines may be unreadable, so it has no sums."""
    lost = PortionMessage(items=chunk.items, sums=None)
    reason = entry.reason[:LONGEST_REASON]
    return Result(job=chunk.job, chunk=chunk.chunk, revision=chunk.revision, parked=lost, reason=reason)


Work: TypeAlias = ChunkMessage | FinishStep


class Finishing(Protocol):
    """The finish stage, as the work queues reach it."""

    def finish(self, message: FinishStep, /) -> object:
        """Finish the job at this revision, merge one segment or write one shard of it."""

    def pause(self, message: FinishStep, error: Exception, /) -> None:
        """Pause the job, whose outputs cannot be made for this reason."""


class RunAlone(Protocol):
    """Runs a chunk in a process of its own, so that only this one ends with it."""

    def __call__(  # noqa: PLR0913 - the chunk, its bounds, and what its message asks of its run
        self,
        workload: str,
        parts: Iterable[list[bytes]],
        first_number: int,
        limits: Limits,
        /,
        *,
        makes_lines: bool,
        turns: Turns | None,
    ) -> Ran:
        """Run the lines of each part. An error of the run is raised here, and so is the end of its process."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The parts that processing uses."""

    workloads: Workloads
    read: ReadChunk
    ledger: Ledger
    results: ResultStore
    so_far: SoFarStore
    send: SendResult
    parking: Parking
    deliveries: Deliveries
    finishing: Finishing
    run_alone: RunAlone
    #: Whether chunk messages of a job with this number are dropped. Makes no request.
    is_halted: Callable[[str, int], bool]
    #: Reads that anew where it is due, without waiting: a chunk of calls that wait may take long.
    look_beside: Callable[[], object]
    #: Lets a chunk with limits begin, and gives its turns.
    pace: Callable[[AnyWorkload, int], AbstractContextManager[Turns]]
    #: Writes that the first chunk of an opening begins.
    note_first: Callable[[FirstChunkMark], object]
    #: Counts the stored bytes of a chunk.
    weigh: Callable[[int, int], object]
    clock: Clock
    limits: Limits = field(default_factory=Limits)
    merged_most: int = MERGED_MOST
    telemetry: Telemetry = SILENT


@dataclass(frozen=True, slots=True)
class _Failing:
    """A run of which transactions failed."""

    #: The first failure.
    error: Exception
    ran: Ran
    workload: AnyWorkload
    #: Whether the chunk may end with the others.
    is_few: bool
    started: float
    requests: Mapping[str, int]
    before: SoFar | None
    #: The hash of the credited result, of which these were set aside.
    extends: str | None


class Processor:
    """Handles the deliveries of the work queues. Safe to call from several threads."""

    def __init__(self, tools: Tools) -> None:
        self._tools, self._deliveries = tools, tools.deliveries
        #: By name: whether the calls of a workload wait for others. To find that out takes longer than all else here.
        self._waiting: dict[str, bool] = {}

    def handle(self, delivery: Delivery) -> None:
        """Handle a delivery. Return to acknowledge it. Raise to have it redelivered."""
        try:
            self._handle(delivery)
        except NewerVersionError as error:
            tell(events.NEWER_VERSION, found=str(error))
            if delivery.count < LOOKS:
                raise
            self._park_newer(delivery, error)

    def _handle(self, delivery: Delivery) -> None:
        try:
            work = _read(delivery)
        except RefusedError as error:
            # None of its fields is trusted, so its bytes identify it.
            claim = Claim(key=content_key(PROCESS, delivery.body))
            self._tools.parking.park(PROCESS, delivery, error, claim)
            return
        if isinstance(work, ChunkMessage) and self._tools.is_halted(work.job, work.halts):
            # A resume of the job puts all its open chunks again.
            self._drop(work, delivery.count)
        elif not self._is_settled(work, delivery):
            self._attempt(work, delivery)

    def _is_halted(self, work: ChunkMessage) -> bool:
        self._tools.look_beside()
        return self._tools.is_halted(work.job, work.halts)

    def _drop(self, work: ChunkMessage, deliveries: int) -> None:
        self._deliveries.forget(_note(work), deliveries)
        self._tools.telemetry.add(metrics.CHUNKS, workload=work.workload, outcome="halted")

    def _is_settled(self, work: Work, delivery: Delivery) -> bool:
        """Check whether the work was done or parked before, and if so report it to the ledger again."""
        # A first delivery is nearly always the only one, so it does not pay for the check.
        if delivery.count == 1 and not (isinstance(work, ChunkMessage) and work.again):
            return False
        is_aside = isinstance(work, ChunkMessage) and work.aside
        # Of a message with `aside`, the chunk is done.
        if isinstance(work, ChunkMessage) and not is_aside and self._has_result(work):
            return True
        parked = self._tools.parking.table.find(work.job, _key(work))
        # If it was replayed since, this delivery runs it.
        if parked is None or parked.stage == ACCEPT or parked.state not in SETTLED:
            return False
        if isinstance(work, ChunkMessage) and not is_aside:
            self._tools.send(make_parked_result(work, parked))
            self._count_parked(work)
        return True

    def _attempt(self, work: Work, delivery: Delivery) -> None:
        can_run_alone = isinstance(work, ChunkMessage) and not work.aside
        attempt = self._deliveries.begin(_stage(work), delivery, _note(work), can_run_alone=can_run_alone)
        failing = None
        try:
            if attempt.goes_on:
                came_before = delivery.count > 1 or (isinstance(work, ChunkMessage) and work.again)
                failing = self._do(work, is_suspect=attempt.is_suspect, came_before=came_before)
            if failing is not None:
                attempt.fail(failing.error)
        except HaltedError:
            # As if it had come now: a resume puts it again.
            attempt.verdict = Done()
        except Exception as error:  # noqa: BLE001 - the end of the attempt parks the message for it, or raises it
            attempt.fail(error)
        if isinstance(attempt.verdict, Park) and self._is_parked_apart(work, attempt, failing):
            return
        self._deliveries.end(attempt)
        if isinstance(work, ChunkMessage) and isinstance(attempt.verdict, Park):
            self._count_parked(work)

    def _is_parked_apart(self, work: Work, attempt: Attempt, failing: _Failing | None) -> bool:
        """Prepare the parking of a message. True: only some of its transactions are parked, and that was done."""
        if isinstance(work, FinishStep):
            if isinstance(attempt.verdict, Park):
                # Otherwise the job would stay in finishing, as if its outputs were about to come.
                self._tools.finishing.pause(work, attempt.verdict.error)
            return False
        if self._find_aside(work) is None if work.aside else self._has_result(work):
            # An earlier run of this chunk had its result meanwhile. A chunk that is done is not parked.
            attempt.verdict = Done()
            return False
        return failing is not None and failing.is_few and self._set_aside(work, attempt, failing)

    def _do(self, work: Work, *, is_suspect: bool, came_before: bool) -> _Failing | None:
        if isinstance(work, FinishStep):
            self._tools.finishing.finish(work)
            return None
        job, chunk, revision = work.job, work.chunk, work.revision
        span = self._tools.telemetry.span(Piece.PROCESS, work.trace, job=job, chunk=chunk, revision=revision)
        with span, self._pace(work) as turns:
            return self._run(work, turns, is_suspect=is_suspect, came_before=came_before)

    def _pace(self, work: ChunkMessage) -> AbstractContextManager[Turns | None]:
        """Let a chunk with limits begin, before it takes memory."""
        known = self._tools.workloads
        if work.workload in known and has_limits(workload := known.find(work.workload)):
            return self._tools.pace(workload, work.items)
        return nullcontext()

    def _run(self, work: ChunkMessage, turns: Turns | None, *, is_suspect: bool, came_before: bool) -> _Failing | None:
        started = self._tools.clock.monotonic()
        with tally_requests() as requests:
            if work.first is not None:
                self._tools.note_first(work.first)
            workload, extends, before = self._tools.workloads.find(work.workload), None, None
            # The others run as a whole: a suspect alone, no lines while one fails, and no estimate of a part.
            keeps = not (is_suspect or work.lines or work.aside or _sounds(work, workload))
            if work.aside:
                row = self._find_aside(work)
                if row is None or self._is_extended(work, row):
                    return None
                extends, before = row.hash, resume_from(self._tools.results.open(row), work, workload)
            elif keeps and came_before:
                before = self._tools.so_far.find(work, workload)
            with self._tools.read(work) as parts:
                self._tools.weigh(work.stored, work.items)
                ran = self._run_parts(work, turns, parts, before, is_suspect=is_suspect)
                if ran.left:
                    has_passed = len(ran.left) < (work.items if before is None else len(before.left))
                    if keeps and has_passed:
                        # Without it, the next try calls all of them again.
                        with suppress(StorageUnavailableError):
                            self._tools.so_far.put(work, ran, self._count_milliseconds(started, before), before)
                    _raise_halted(ran)
                    # Its result waits for them. At its last try, a chunk of which few fail ends with the others.
                    some_passed = has_passed if work.aside else len(ran.left) < work.items
                    is_few = some_passed and ran.pieces is not None and not work.lines
                    error = first_of(ran.left, work.items)
                    return _Failing(error, ran, workload, is_few, started, charges(requests), before, extends)
                if ran.expected <= ALARMING * self._tools.merged_most:
                    ran = replace(ran, expected=0)
                packed = pack_result(work, ran, self._tools.limits, extends)
                stored = self._store(packed)
        self._report(work, stored, packed, started, charges(requests), before)
        self._tools.telemetry.add(metrics.CLOSE_LOOKS, ran.closely, workload=work.workload)
        return None

    def _set_aside(self, work: ChunkMessage, attempt: Attempt, failing: _Failing) -> bool:
        """End the chunk with those that passed, and park the others one by one. False: that fails for a reason of its own."""
        ran, tools, delivery = failing.ran, self._tools, attempt.delivery
        try:
            packed = pack_result(work, set_aside(failing.workload, ran), tools.limits, failing.extends)
        except Exception as error:  # noqa: BLE001 - the end of the attempt parks the whole chunk for it, or raises it
            attempt.fail(error)
            return False
        if not work.aside:
            delivery = replace(delivery, body=mark_aside(delivery.body))
        claim = replace(identify_message(TRANSACTIONS, delivery.body), items=len(ran.left))
        # Before the result: without the entry, none could replay what that sets aside.
        tools.parking.park(TRANSACTIONS, delivery, failing.error, claim)
        with tally_requests() as more:
            stored = self._store(packed)
        requests = Counter(failing.requests) + Counter(charges(more))
        self._report(work, stored, packed, failing.started, requests, failing.before)
        self._deliveries.forget(attempt.note, delivery.count)
        return True

    def _find_aside(self, work: ChunkMessage) -> ChunkRow | None:
        """Return the credited row of a chunk of which transactions are set aside. None: all have passed."""
        row = find_done(self._tools.ledger, work.job, work.chunk)
        if row is None:
            found = (
                f"could not replay what was set aside of chunk {work.chunk} of job {work.job!r}: it is not credited yet"
            )
            raise NoSlotError(found, waits_for="the result of its chunk")
        return row if row.aside else None

    def _is_extended(self, work: ChunkMessage, row: ChunkRow) -> bool:
        """Check whether a result that extends the row's is stored, because its message may not have arrived. Report it."""
        stored = self._tools.results.find(work, row.hash)
        if stored is not None:
            self._send_done(work, stored, None, 0, {})
        return stored is not None

    def _store(self, packed: PackedResult) -> StoredResult:
        """Store a result that is too large for its message. Return the one that is stored, which another run may have made."""
        return packed.stored if packed.travels else self._tools.results.put(packed)

    def _report(  # noqa: PLR0913, PLR0917 - what is known of the run
        self,
        work: ChunkMessage,
        stored: StoredResult,
        packed: PackedResult,
        started: float,
        requests: Mapping[str, int],
        before: SoFar | None,
    ) -> None:
        # With the writing of its result, as of a chunk without a failure.
        milliseconds = self._count_milliseconds(started, before)
        self._send_done(work, stored, packed if packed.travels else None, milliseconds, dict(requests))
        self._count(work, stored.result, self._tools.clock.monotonic() - started, before if work.aside else None)

    def _count_milliseconds(self, started: float, before: SoFar | None) -> int:
        """Return how long this try took until now, with those before it."""
        return round((self._tools.clock.monotonic() - started) * 1000) + (0 if before is None else before.milliseconds)

    def _run_parts(
        self,
        work: ChunkMessage,
        turns: Turns | None,
        parts: Iterable[list[bytes]],
        before: SoFar | None,
        *,
        is_suspect: bool,
    ) -> Ran:
        """Run the chunk, or those of its transactions that were left before."""
        limits, first = self._tools.limits, work.first_id
        if is_suspect:
            return self._tools.run_alone(work.workload, parts, first, limits, makes_lines=work.lines, turns=turns)
        workload = self._tools.workloads.find(work.workload)
        if (waits := self._waiting.get(work.workload)) is None:
            waits = self._waiting[work.workload] = is_waiting(workload)
        calls = Halting(workload, partial(self._is_halted, work)) if waits else workload
        run = calls if turns is None else Paced(calls, turns)
        if before is not None:
            return before.add(workload, run_in_parts(run, parts, first, before.reduce(limits), left=before.left))
        return run_in_parts(run, parts, first, limits, sound=_sounds(work, workload), makes_lines=work.lines)

    def _count(self, work: ChunkMessage, result: ChunkResult, seconds: float, credited: SoFar | None) -> None:
        """Count a result, but for those that were counted with the result that it extends."""
        add, workload = self._tools.telemetry.add, work.workload
        add(metrics.CHUNK_SECONDS, seconds, workload=workload)
        accepted, rejected = result.accepted.items, result.rejected.items
        if credited is None:
            add(metrics.CHUNKS, workload=workload, outcome="done")
        else:
            accepted, rejected = accepted - credited.accepted.items, rejected - credited.rejected.items
        add(metrics.TRANSACTIONS, accepted, workload=workload, outcome="accepted")
        add(metrics.TRANSACTIONS, rejected, workload=workload, outcome="rejected")

    def _park_newer(self, delivery: Delivery, error: NewerVersionError) -> None:
        """Park a message that no instance could take for ten minutes. The job of a finish pauses."""
        refused = refuse(DeliveryReason.NEWER_VERSION, str(error))
        work = None
        # Neither a newer message nor a newer row keeps the bytes from being parked.
        with suppress(NewerVersionError):
            work = _read(delivery)
            if isinstance(work, FinishStep):
                self._tools.finishing.pause(work, refused)
        if work is None:
            self._tools.parking.park(PROCESS, delivery, refused, Claim(key=content_key(PROCESS, delivery.body)))
            return
        self._tools.parking.park(_stage(work), delivery, refused)
        self._deliveries.forget(_note(work), delivery.count)

    def _has_result(self, chunk: ChunkMessage) -> bool:
        """Check whether the chunk is credited or its result is stored. A stored one is reported once more."""
        if not is_chunk_done(self._tools.ledger, chunk.job, chunk.chunk):
            stored = self._tools.results.find(chunk)
            if stored is None:
                return False
            self._send_done(chunk, stored, None, 0, {})
        self._tools.telemetry.add(metrics.CHUNKS, workload=chunk.workload, outcome="found")
        return True

    def _send_done(
        self,
        chunk: ChunkMessage,
        stored: StoredResult,
        packed: PackedResult | None,
        milliseconds: int,
        requests: dict[str, int],
    ) -> None:
        """Send the result, with its content if it is given, or else with the name of its blob."""
        try:
            self._tools.send(
                Result(
                    job=chunk.job,
                    chunk=chunk.chunk,
                    revision=chunk.revision,
                    blob=stored.name if packed is None else None,
                    content=None if packed is None else packed.text,
                    hash=stored.hash,
                    length=stored.length,
                    partial=memoryview(stored.result.partial).nbytes,
                    expected=stored.result.expected,
                    lines=stored.lines,
                    extends=stored.result.extends,
                    accepted=stored.result.accepted,
                    rejected=stored.result.rejected,
                    parked=stored.result.parked or NO_PORTION,
                    milliseconds=milliseconds,
                    requests=requests,
                    trace=self._tools.telemetry.current(),
                    v=STREAMS_VERSION if stored.result.streams or stored.result.extends else VERSION,
                )
            )
        except ResultNotSentError:
            if packed is not None:
                # It may have arrived or not. The next delivery finds it here, and runs nothing.
                self._tools.results.put(packed)
            raise

    def _count_parked(self, work: ChunkMessage) -> None:
        self._tools.telemetry.add(metrics.CHUNKS, workload=work.workload, outcome="parked")


def _raise_halted(ran: Ran) -> None:
    """Raise the error of a run that was halted: those that were not called have not failed."""
    for one in ran.left:
        if isinstance(one.error, HaltedError):
            raise one.error


def _read(delivery: Delivery) -> Work:
    body = unwrap(delivery.body)
    try:
        message: Internal = decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        check_message(body, f"a message on {delivery.queue}")
        raise _refuse_unreadable(f"{type(error).__name__}: {error}") from error
    if not isinstance(message, ChunkMessage | FinishStep):
        raise _refuse_unreadable(f"it is a {message.__struct_config__.tag}, which belongs on another queue")
    version = message.needs if isinstance(message, ChunkMessage) else VERSION
    if message.v != version:
        check_message(body, f"a message on {delivery.queue}")
        raise _refuse_unreadable(f"its version is {message.v}, and this is version {version}")
    if not is_job(message.job):
        raise _refuse_unreadable(f"no job can be called {message.job[:100]!r}")
    return message


def _sounds(work: ChunkMessage, workload: AnyWorkload) -> int:
    """Return the job's transactions, if this chunk is to say whether their merged partial fits. In cuts, any does."""
    return 0 if has_split(workload) else work.sound or 0


def _refuse_unreadable(found: str) -> RefusedError:
    return refuse(DeliveryReason.UNREADABLE, found)


def _stage(work: Work) -> str:
    if isinstance(work, ChunkMessage):
        return TRANSACTIONS if work.aside else PROCESS
    return FINISH


def _note(work: Work) -> str:
    return job_note(work.job, _key(work))


def _key(work: Work) -> str:
    if isinstance(work, Segment):
        return segment_key(work.segment, work.revision)
    if isinstance(work, Shard):
        return shard_key(work.shard, work.revision)
    if isinstance(work, ChunkMessage):
        return transactions_key(work.chunk, work.revision) if work.aside else chunk_key(work.chunk, work.revision)
    return finish_key(work.revision)
