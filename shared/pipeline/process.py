"""The process stage: runs a chunk, stores its result and reports it to the ledger, or parks the message.

The order of the writes makes it safe to be killed anywhere. A small result travels in its message. If that may not have
arrived, the same bytes are stored, and the next delivery tells of them. A larger result is stored before the message
about it, and so is a parked entry. All this comes before the host deletes the work message.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import Final, Protocol, TypeAlias

import msgspec

from shared.azure import RequestTally, charges, tally_requests
from shared.clock import Clock
from shared.errors import (
    HaltedError,
    Later,
    NewerVersionError,
    PutOffError,
    RefusedError,
    ResultNotSentError,
)
from shared.grammar import is_job
from shared.ledger import MERGED_MOST, ChunkRow, Ledger
from shared.messages import (
    NO_PORTION,
    STREAMS_VERSION,
    VERSION,
    ChunkMessage,
    Delivery,
    FileRange,
    FinishStep,
    FirstChunkMark,
    Internal,
    Result,
    Segment,
    Shard,
    decode,
    unwrap,
)
from shared.parked import (
    ACCEPT,
    SETTLED,
    Attempt,
    Claim,
    Deliveries,
    Done,
    Park,
    Parking,
    chunk_key,
    content_key,
    finish_key,
    identify_message,
    job_note,
    mark_aside,
    range_key,
    segment_key,
    shard_key,
    transactions_key,
)
from shared.payload import Limits, ReadChunk
from shared.pipeline.failing.alone import Alone
from shared.pipeline.failing.aside import (
    TRANSACTIONS,
    Failing,
    Run,
    find_aside,
    judge_failing,
    leave,
    resume_from,
    set_aside,
)
from shared.pipeline.failing.put_off import choose_due, seconds_until
from shared.pipeline.failing.so_far import SoFarStore
from shared.pipeline.failing.work_stages import FINISH, PROCESS, make_parked_result
from shared.pipeline.outputs import Ran, run_in_parts
from shared.pipeline.results import ChunkResult, PackedResult, ResultStore, SendResult, StoredResult, pack_result
from shared.pipeline.settle import is_chunk_done
from shared.refusals import DeliveryReason, refuse
from shared.telemetry import SILENT, Piece, Telemetry, events, metrics, tell
from shared.versions import LOOKS, check_message
from shared.workloads import (
    LONGEST_PAUSE,
    AnyWorkload,
    Calls,
    Service,
    Turns,
    Workloads,
    has_limits,
    has_split,
    pause_after,
)

#: The first chunk estimates. It speaks up from so many times the bound of the merged partial.
ALARMING: Final = 2

Work: TypeAlias = ChunkMessage | FinishStep | FileRange


class Finishing(Protocol):
    """The finish stage, as the work queues reach it."""

    def finish(self, message: FinishStep, /) -> object:
        """Finish the job at this revision, merge one segment or write one shard of it."""

    def pause(self, message: FinishStep, error: Exception, /) -> None:
        """Pause the job, whose outputs cannot be made for this reason."""


class Ranging(Protocol):
    """Cuts ranges of files, as the work queues reach it."""

    def cut(self, message: FileRange, /) -> None:
        """Cut one, and take it if its turn has come."""

    def refuse(self, message: FileRange, error: Exception, /) -> None:
        """Say why one is not cut."""


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
    ranging: Ranging
    run_alone: Alone
    #: Whether chunk messages of a job with this number are dropped. Makes no request.
    is_halted: Callable[[str, int], bool]
    #: Reads that anew where it is due, without waiting: a chunk of calls that wait may take long.
    look_beside: Callable[[], object]
    #: Lets a chunk with limits begin, and gives its turns.
    pace: Callable[[AnyWorkload], AbstractContextManager[Turns]]
    #: Writes that the first chunk of an opening begins.
    note_first: Callable[[FirstChunkMark], object]
    #: Counts the stored bytes of a chunk.
    weigh: Callable[[int, int], object]
    clock: Clock
    #: Waits so many seconds.
    pause: Callable[[float], object] = time.sleep
    limits: Limits = field(default_factory=Limits)
    merged_most: int = MERGED_MOST
    telemetry: Telemetry = SILENT


class Processor:
    """Handles the deliveries of the work queues. Safe to call from several threads."""

    def __init__(self, tools: Tools) -> None:
        self._tools, self._deliveries = tools, tools.deliveries
        #: What the calls of each workload met here lately, by its name.
        self._services: dict[str, Service] = {}

    def handle(self, delivery: Delivery) -> bool:
        """Handle a delivery. Return to acknowledge it: True, if it was dropped, as no work. Raise to have it redelivered."""
        try:
            return self._handle(delivery)
        except NewerVersionError as error:
            tell(events.NEWER_VERSION, found=str(error))
            if delivery.count < LOOKS:
                raise
            self._park_newer(delivery, error)
            return False

    def _handle(self, delivery: Delivery) -> bool:
        try:
            work = _read(delivery)
        except RefusedError as error:
            # None of its fields is trusted, so its bytes identify it.
            claim = Claim(key=content_key(PROCESS, delivery.body))
            self._tools.parking.park(PROCESS, delivery, error, claim)
            return False
        if isinstance(work, ChunkMessage) and self._tools.is_halted(work.job, work.halts):
            # A resume of the job puts all its open chunks again.
            self._drop(work, delivery.count)
            return True
        if not self._is_settled(work, delivery):
            self._attempt(work, delivery)
        return False

    def _is_halted(self, work: ChunkMessage) -> bool:
        self._tools.look_beside()
        return self._tools.is_halted(work.job, work.halts)

    def _drop(self, work: ChunkMessage, deliveries: int) -> None:
        self._deliveries.forget(_note(work), deliveries)
        self._tools.telemetry.add(metrics.CHUNKS, workload=work.workload, outcome="halted")

    def _is_settled(self, work: Work, delivery: Delivery) -> bool:
        """Check whether the work was done or parked before, and if so report it to the ledger again."""
        # A first delivery is nearly always the only one, so it does not pay for the check.
        if delivery.count == 1 and not (isinstance(work, ChunkMessage | FileRange) and work.again):
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
        can_run_alone, is_step = isinstance(work, ChunkMessage), isinstance(work, FinishStep)
        attempt = self._deliveries.begin(
            _stage(work), delivery, _note(work), can_run_alone=can_run_alone, is_step=is_step
        )
        came_before = delivery.count > 1 or (isinstance(work, ChunkMessage) and work.again and not work.aside)
        failing = self._try(attempt, work, came_before=came_before)
        if isinstance(attempt.verdict, Park) and self._is_parked_apart(work, attempt, failing):
            return
        self._deliveries.end(attempt)
        if isinstance(work, ChunkMessage) and isinstance(attempt.verdict, Park):
            self._count_parked(work)

    def _try(self, attempt: Attempt, work: Work, *, came_before: bool) -> Failing | None:
        """Do the work, unless it killed its workers before. The verdict follows from how that ends."""
        failing = None
        try:
            if attempt.goes_on:
                failing = self._do(
                    work, is_suspect=attempt.is_suspect, came_before=came_before, put_off=attempt.put_off
                )
            if failing is not None:
                judge_failing(attempt, failing)
        except HaltedError:
            # As if it had come now: a resume puts it again.
            attempt.verdict = Done()
        except PutOffError as early:
            self._deliveries.put_off(attempt, None, early.seconds)
        except Later as error:
            # Of a call for many.
            pause = max(error.seconds, pause_after(attempt.put_off + 1))
            self._deliveries.put_off(attempt, error, ceil(min(LONGEST_PAUSE, pause)))
        except Exception as error:  # noqa: BLE001 - the end of the attempt parks the message for it, or raises it
            attempt.fail(error)
        return failing

    def _is_parked_apart(self, work: Work, attempt: Attempt, failing: Failing | None) -> bool:
        """Prepare the parking of a message. True: only some of its transactions are parked, and that was done."""
        if isinstance(work, FinishStep):
            if isinstance(attempt.verdict, Park):
                # Otherwise the job would stay in finishing, as if its outputs were about to come.
                self._tools.finishing.pause(work, attempt.verdict.error)
            return False
        if isinstance(work, FileRange):
            if isinstance(attempt.verdict, Park):
                self._tools.ranging.refuse(work, attempt.verdict.error)
            return False
        if find_aside(self._tools.ledger, work) is None if work.aside else self._has_result(work):
            # An earlier run of this chunk had its result meanwhile. A chunk that is done is not parked.
            attempt.verdict = Done()
            return False
        return failing is not None and failing.is_few and self._set_aside(work, attempt, failing)

    def _do(self, work: Work, *, is_suspect: bool, came_before: bool, put_off: int = 0) -> Failing | None:
        if isinstance(work, FinishStep):
            self._tools.finishing.finish(work)
            return None
        if isinstance(work, FileRange):
            self._tools.ranging.cut(work)
            return None
        job, chunk, revision = work.job, work.chunk, work.revision
        span = self._tools.telemetry.span(Piece.PROCESS, work.trace, job=job, chunk=chunk, revision=revision)
        with span, self._pace(work) as turns:
            return self._run(work, turns, is_suspect=is_suspect, came_before=came_before, put_off=put_off)

    def _pace(self, work: ChunkMessage) -> AbstractContextManager[Turns | None]:
        """Let a chunk with limits begin, before it takes memory."""
        known = self._tools.workloads
        if work.workload in known and has_limits(workload := known.find(work.workload)):
            return self._tools.pace(workload)
        return nullcontext()

    def _run(
        self, work: ChunkMessage, turns: Turns | None, *, is_suspect: bool, came_before: bool, put_off: int
    ) -> Failing | None:
        started = self._tools.clock.monotonic()
        with tally_requests() as requests:
            if work.first is not None:
                self._tools.note_first(work.first)
            run = self._begin(work, turns, started, is_suspect=is_suspect, came_before=came_before)
            if run is None:
                return None
            with self._tools.read(work) as parts:
                self._tools.weigh(work.stored, work.items)
                ran = self._run_parts(run, turns, parts)
                if ran.left or (run.before is not None and run.resting):
                    return self._leave(run, ran, requests, put_off)
                if ran.expected <= ALARMING * self._tools.merged_most:
                    ran = replace(ran, expected=0)
                packed = pack_result(work, ran, self._tools.limits, run.extends)
                stored = self._store(packed)
        self._report(run, stored, packed, charges(requests))
        self._tools.telemetry.add(metrics.CLOSE_LOOKS, ran.closely, workload=work.workload)
        return None

    def _begin(
        self, work: ChunkMessage, turns: Turns | None, started: float, *, is_suspect: bool, came_before: bool
    ) -> Run | None:
        """Find what the chunk came to before, and who is called now. None: nothing is to be done."""
        tools, before, extends = self._tools, None, None
        workload = tools.workloads.find(work.workload)
        row = find_aside(tools.ledger, work) if work.aside else None
        if work.aside:
            if row is None or self._is_extended(work, row):
                return None
            extends = row.hash
        if came_before:
            before = tools.so_far.find(work, workload, extends)
        if row is not None and before is None:
            before = resume_from(tools.results.open(row), work, workload)
        chosen, now = None, tools.clock.now().timestamp()
        if before is not None:
            chosen = choose_due(before.left, now, self._deliveries.policy.later)
            if not chosen:
                raise PutOffError(seconds_until(before.left, now))
        service = self._services.setdefault(work.workload, Service())
        calls = Calls(service, turns, partial(self._is_halted, work), tools.clock.monotonic, tools.pause)
        most = work.items if row is None else row.aside
        is_suspect = is_suspect or (before is not None and before.is_alone)
        return Run(work, workload, calls, started, before, chosen, extends, most, is_suspect)

    def _leave(self, run: Run, ran: Ran, requests: RequestTally, put_off: int) -> Failing:
        tools, milliseconds = self._tools, self._count_milliseconds(run)
        now, most = tools.clock.now().timestamp(), self._deliveries.policy.later
        failing = leave(run, ran, tools.so_far, now=now, most=most, milliseconds=milliseconds, put_off=put_off)
        return replace(failing, requests=charges(requests))

    def _set_aside(self, work: ChunkMessage, attempt: Attempt, failing: Failing) -> bool:
        """End the chunk with those that passed, and park the others one by one. False: that fails for a reason of its own."""
        run, ran, tools, delivery = failing.run, failing.ran, self._tools, attempt.delivery
        try:
            packed = pack_result(work, set_aside(run.workload, ran), tools.limits, run.extends)
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
        self._report(run, stored, packed, requests)
        self._deliveries.forget(attempt.note, delivery.count)
        return True

    def _is_extended(self, work: ChunkMessage, row: ChunkRow) -> bool:
        """Check whether a result that extends the row's is stored, because its message may not have arrived. Report it."""
        stored = self._tools.results.find(work, row.hash)
        if stored is not None:
            self._send_done(work, stored, None, 0, {})
        return stored is not None

    def _store(self, packed: PackedResult) -> StoredResult:
        """Store a result that is too large for its message. Return the one that is stored, which another run may have made."""
        return packed.stored if packed.travels else self._tools.results.put(packed)

    def _report(self, run: Run, stored: StoredResult, packed: PackedResult, requests: Mapping[str, int]) -> None:
        # With the writing of its result, as of a chunk without a failure.
        milliseconds = self._count_milliseconds(run)
        self._send_done(run.work, stored, packed if packed.travels else None, milliseconds, dict(requests))
        self._count(run, stored.result, self._tools.clock.monotonic() - run.started)

    def _count_milliseconds(self, run: Run) -> int:
        """Return how long this try took until now, with those before it."""
        before = 0 if run.before is None else run.before.milliseconds
        return round((self._tools.clock.monotonic() - run.started) * 1000) + before

    def _run_parts(self, run: Run, turns: Turns | None, parts: Iterable[list[bytes]]) -> Ran:
        """Run the chunk, or those of its transactions that are called now."""
        limits, work, workload, before = self._tools.limits, run.work, run.workload, run.before
        first = work.first_id
        sound, left = _sounds(work, workload) if before is None else 0, run.chosen
        limits = limits if before is None else before.reduce(limits)
        if run.is_suspect:
            alone = self._tools.run_alone
            ran = alone(workload, parts, first, limits, makes_lines=work.lines, turns=turns, left=left)
        else:
            ran = run_in_parts(
                workload, parts, first, limits, sound=sound, makes_lines=work.lines, left=left, calls=run.calls
            )
        return ran if before is None else before.add(workload, ran, run.resting)

    def _count(self, run: Run, result: ChunkResult, seconds: float) -> None:
        """Count a result, but for those that were counted with the result that it extends."""
        add, workload, credited = self._tools.telemetry.add, run.work.workload, run.before if run.work.aside else None
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
        if not is_chunk_done(self._tools.ledger, chunk.job, chunk.chunk, chunk.revision):
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


def _read(delivery: Delivery) -> Work:
    body = unwrap(delivery.body)
    try:
        message: Internal = decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        check_message(body, f"a message on {delivery.queue}")
        raise _refuse_unreadable(f"{type(error).__name__}: {error}") from error
    if not isinstance(message, ChunkMessage | FinishStep | FileRange):
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
    return PROCESS if isinstance(work, FileRange) else FINISH


def _note(work: Work) -> str:
    return job_note(work.job, _key(work))


def _key(work: Work) -> str:
    if isinstance(work, Segment):
        return segment_key(work.segment, work.revision)
    if isinstance(work, Shard):
        return shard_key(work.shard, work.revision)
    if isinstance(work, ChunkMessage):
        return transactions_key(work.chunk, work.revision) if work.aside else chunk_key(work.chunk, work.revision)
    if isinstance(work, FileRange):
        return range_key(work.stretch)
    return finish_key(work.revision)
