"""The process stage: runs a chunk, stores its result and reports it to the ledger, or parks the message.

The order of the writes makes it safe to be killed anywhere. A small result travels in its message. If that may not have
arrived, the same bytes are stored, and the next delivery tells of them. A larger result is stored before the message
about it, and so is a parked entry. All this comes before the host deletes the work message.

`work_stages` are the stages `process` and `finish` for parking: their keys, and how their messages are put back.
"""

import base64
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import msgspec

from shared.azure import charges, tally_requests
from shared.clock import Clock
from shared.errors import NewerVersionError, RefusedError, ResultNotSentError
from shared.grammar import is_job
from shared.ledger import FINISHED, Ledger
from shared.messages import (
    PARTS_VERSION,
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
    read_message,
    segment_key,
    shard_key,
)
from shared.payload import Limits, ReadChunk
from shared.pipeline.outputs import Ran, run_in_parts
from shared.pipeline.results import QUEUE, PackedResult, ResultStore, SendResult, StoredResult, pack_result
from shared.pipeline.settle import is_chunk_done
from shared.refusals import DeliveryReason, refuse
from shared.telemetry import SILENT, Piece, Telemetry, events, metrics, tell
from shared.topology import is_work_queue
from shared.versions import LOOKS, check_message
from shared.workloads import Workloads

#: Names of the stages; they are stored.
PROCESS: Final = "process"
FINISH: Final = "finish"
#: A result has one kibibyte beside its content.
LONGEST_REASON: Final = 200


def work_stages(ledger: Ledger, put: PutOnQueue, send: SendResult) -> tuple[Stage, Stage]:
    """Return the stages of the work queues: one for finishes with their segments and shards, one for chunks and every other message."""
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

    process = Stage(
        name=PROCESS,
        reads=is_work_queue,
        identify=lambda delivery: identify_message(PROCESS, delivery.body),
        put_back=put,
        has_landed=lambda entry: is_chunk_done(ledger, entry.job, entry.chunk),
        on_parked=report,
        wakes=True,
    )
    return finish, process


def _identify_finish(delivery: Delivery) -> Claim | None:
    is_of_finish = isinstance(read_message(delivery.body), FinishStep)
    return identify_message(FINISH, delivery.body) if is_of_finish else None


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

    def halt(self, message: FinishStep, error: Exception, /) -> None:
        """Pause the job, whose outputs cannot be made for this reason."""


class RunAlone(Protocol):
    """Runs a chunk in a process of its own, so that only this one ends with it."""

    def __call__(self, workload: str, parts: Iterable[list[bytes]], first_number: int, limits: Limits, /) -> Ran:
        """Run the lines of each part. An error of the run is raised here, and so is the end of its process."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The parts that processing uses."""

    workloads: Workloads
    read: ReadChunk
    ledger: Ledger
    results: ResultStore
    send: SendResult
    parking: Parking
    deliveries: Deliveries
    finishing: Finishing
    run_alone: RunAlone
    #: Writes that the first chunk of an opening begins.
    note_first: Callable[[FirstChunkMark], object]
    #: Counts the stored bytes of a chunk.
    weigh: Callable[[int], object]
    clock: Clock
    limits: Limits = field(default_factory=Limits)
    telemetry: Telemetry = SILENT


class Processor:
    """Handles the deliveries of the work queues. Safe to call from several threads."""

    def __init__(self, tools: Tools) -> None:
        self._tools, self._deliveries = tools, tools.deliveries

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
        if not self._is_settled(work, delivery):
            self._attempt(work, delivery)

    def _is_settled(self, work: Work, delivery: Delivery) -> bool:
        """Check whether the work was done or parked before, and if so report it to the ledger again."""
        # A first delivery is nearly always the only one, so it does not pay for the check.
        if delivery.count == 1 and not (isinstance(work, ChunkMessage) and work.again):
            return False
        if isinstance(work, ChunkMessage) and self._has_result(work):
            return True
        parked = self._tools.parking.table.find(work.job, _key(work))
        # If it was replayed since, this delivery runs it.
        if parked is None or parked.stage == ACCEPT or parked.state not in SETTLED:
            return False
        if isinstance(work, ChunkMessage):
            self._tools.send(make_parked_result(work, parked))
            self._count_parked(work)
        return True

    def _attempt(self, work: Work, delivery: Delivery) -> None:
        can_run_alone = isinstance(work, ChunkMessage)
        attempt = self._deliveries.begin(_stage(work), delivery, _note(work), can_run_alone=can_run_alone)
        try:
            if attempt.goes_on:
                self._do(work, is_suspect=attempt.is_suspect)
        except Exception as error:  # noqa: BLE001 - the end of the attempt parks the message for it, or raises it
            attempt.fail(error)
        if isinstance(attempt.verdict, Park):
            if isinstance(work, FinishStep):
                # Otherwise the job would stay in finishing, as if its outputs were about to come.
                self._tools.finishing.halt(work, attempt.verdict.error)
            elif self._has_result(work):
                # An earlier run of this chunk had its result meanwhile. A chunk that is done is not parked.
                attempt.verdict = Done()
        self._deliveries.end(attempt)
        if isinstance(work, ChunkMessage) and isinstance(attempt.verdict, Park):
            self._count_parked(work)

    def _do(self, work: Work, *, is_suspect: bool) -> None:
        if isinstance(work, FinishStep):
            self._tools.finishing.finish(work)
            return
        job, chunk, revision = work.job, work.chunk, work.revision
        with self._tools.telemetry.span(Piece.PROCESS, work.trace, job=job, chunk=chunk, revision=revision):
            self._run(work, is_suspect=is_suspect)

    def _run(self, work: ChunkMessage, *, is_suspect: bool) -> None:
        started = self._tools.clock.monotonic()
        with tally_requests() as requests:
            if work.first is not None:
                self._tools.note_first(work.first)
            workload = self._tools.workloads.find(work.workload)
            with self._tools.read(work) as parts:
                self._tools.weigh(work.stored)
                if is_suspect:
                    ran = self._tools.run_alone(work.workload, parts, work.first_id, self._tools.limits)
                else:
                    ran = run_in_parts(workload, parts, work.first_id, self._tools.limits)
                packed = pack_result(work, ran, self._tools.limits)
                stored = packed.stored if packed.travels else self._tools.results.put(packed)
        seconds = self._tools.clock.monotonic() - started
        self._send_done(work, stored, packed if packed.travels else None, round(seconds * 1000), charges(requests))
        self._count(work.workload, stored, seconds)
        self._tools.telemetry.add(metrics.CLOSE_LOOKS, ran.closely, workload=work.workload)

    def _count(self, workload: str, stored: StoredResult, seconds: float) -> None:
        add = self._tools.telemetry.add
        add(metrics.CHUNKS, workload=workload, outcome="done")
        add(metrics.CHUNK_SECONDS, seconds, workload=workload)
        add(metrics.TRANSACTIONS, stored.result.accepted.items, workload=workload, outcome="accepted")
        add(metrics.TRANSACTIONS, stored.result.rejected.items, workload=workload, outcome="rejected")

    def _park_newer(self, delivery: Delivery, error: NewerVersionError) -> None:
        """Park a message that no instance could take for ten minutes. The job of a finish pauses."""
        refused = refuse(DeliveryReason.NEWER_VERSION, str(error))
        work = None
        # Neither a newer message nor a newer row keeps the bytes from being parked.
        with suppress(NewerVersionError):
            work = _read(delivery)
            if isinstance(work, FinishStep):
                self._tools.finishing.halt(work, refused)
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
                    content=None if packed is None else base64.b64encode(packed.content).decode(),
                    hash=stored.hash,
                    length=stored.length,
                    accepted=stored.result.accepted,
                    rejected=stored.result.rejected,
                    milliseconds=milliseconds,
                    requests=requests,
                    trace=self._tools.telemetry.current(),
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
    if not isinstance(message, ChunkMessage | FinishStep):
        raise _refuse_unreadable(f"it is a {message.__struct_config__.tag}, which belongs on another queue")
    version = PARTS_VERSION if isinstance(message, ChunkMessage) and message.part is not None else VERSION
    if message.v != version:
        check_message(body, f"a message on {delivery.queue}")
        raise _refuse_unreadable(f"its version is {message.v}, and this is version {version}")
    if not is_job(message.job):
        raise _refuse_unreadable(f"no job can be called {message.job[:100]!r}")
    return message


def _refuse_unreadable(found: str) -> RefusedError:
    return refuse(DeliveryReason.UNREADABLE, found)


def _stage(work: Work) -> str:
    return PROCESS if isinstance(work, ChunkMessage) else FINISH


def _note(work: Work) -> str:
    return job_note(work.job, _key(work))


def _key(work: Work) -> str:
    if isinstance(work, Segment):
        return segment_key(work.segment, work.revision)
    if isinstance(work, Shard):
        return shard_key(work.shard, work.revision)
    return chunk_key(work.chunk, work.revision) if isinstance(work, ChunkMessage) else finish_key(work.revision)
