"""The process stage: runs a chunk, stores its result and reports it to the ledger, or parks the message.

The order of the writes makes it safe to be killed anywhere. A result is stored before the message about it, and so is a
parked entry. Both come before the host deletes the work message.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import msgspec

from shared.azure import charges, tally_requests
from shared.clock import Clock
from shared.errors import RefusedError
from shared.grammar import is_job
from shared.messages import (
    PARTS_VERSION,
    VERSION,
    ChunkMessage,
    Delivery,
    Finish,
    FirstChunkMark,
    Internal,
    Result,
    SendResult,
    decode,
    unwrap,
)
from shared.parked import ACCEPT, INSTEAD, SETTLED, Claim, Deliveries, Parking, chunk_key, content_key, finish_key
from shared.payload import Limits, ReadChunk
from shared.pipeline.outputs import run_in_parts
from shared.pipeline.results import ResultStore, StoredResult
from shared.pipeline.work_parking import FINISH, PROCESS, make_parked_result
from shared.telemetry import SILENT, Piece, Telemetry, metrics
from shared.workloads import Workloads

Work: TypeAlias = ChunkMessage | Finish


class Finishing(Protocol):
    """The finish stage, as the work queues reach it."""

    def finish(self, message: Finish, /) -> object:
        """Finish the job at this revision."""

    def halt(self, message: Finish, error: Exception, /) -> None:
        """Pause the job, whose outputs cannot be made for this reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The parts that processing uses."""

    workloads: Workloads
    read: ReadChunk
    results: ResultStore
    send: SendResult
    parking: Parking
    deliveries: Deliveries
    finishing: Finishing
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
        if isinstance(work, ChunkMessage) and self._report_stored(work):
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
        note = f"{work.job}|{_key(work)}"
        error = self._deliveries.attempt(note, delivery.count, lambda: self._do(work))
        if error is not None:
            self._park(work, delivery, error)
            self._deliveries.forget(note, delivery.count)

    def _do(self, work: Work) -> None:
        if isinstance(work, Finish):
            self._tools.finishing.finish(work)
            return
        job, chunk, revision = work.job, work.chunk, work.revision
        with self._tools.telemetry.span(Piece.PROCESS, work.trace, job=job, chunk=chunk, revision=revision):
            self._run(work)

    def _run(self, work: ChunkMessage) -> None:
        started = self._tools.clock.monotonic()
        with tally_requests() as requests:
            if work.first is not None:
                self._tools.note_first(work.first)
            workload = self._tools.workloads.find(work.workload)
            with self._tools.read(work) as parts:
                self._tools.weigh(work.stored)
                ran = run_in_parts(workload, parts, work.first_id, self._tools.limits)
                stored = self._tools.results.put(work, ran)
        seconds = self._tools.clock.monotonic() - started
        self._send_done(work, stored, round(seconds * 1000), charges(requests))
        self._count(work.workload, stored, seconds)
        self._tools.telemetry.add(metrics.CLOSE_LOOKS, ran.closely, workload=work.workload)

    def _count(self, workload: str, stored: StoredResult, seconds: float) -> None:
        add = self._tools.telemetry.add
        add(metrics.CHUNKS, workload=workload, outcome="done")
        add(metrics.CHUNK_SECONDS, seconds, workload=workload)
        add(metrics.TRANSACTIONS, stored.result.accepted.items, workload=workload, outcome="accepted")
        add(metrics.TRANSACTIONS, stored.result.rejected.items, workload=workload, outcome="rejected")

    def _park(self, work: Work, delivery: Delivery, error: Exception) -> None:
        # An earlier run of this chunk may have stored its result meanwhile. A chunk that is done is not parked.
        if isinstance(work, ChunkMessage) and self._report_stored(work):
            return
        if isinstance(work, Finish):
            # Otherwise the job would stay in finishing, as if its outputs were about to come.
            self._tools.finishing.halt(work, error)
        self._tools.parking.park(FINISH if isinstance(work, Finish) else PROCESS, delivery, error)
        if isinstance(work, ChunkMessage):
            self._count_parked(work)

    def _report_stored(self, chunk: ChunkMessage) -> bool:
        stored = self._tools.results.find(chunk)
        if stored is None:
            return False
        self._send_done(chunk, stored, 0, {})
        self._tools.telemetry.add(metrics.CHUNKS, workload=chunk.workload, outcome="found")
        return True

    def _send_done(
        self, chunk: ChunkMessage, stored: StoredResult, milliseconds: int, requests: dict[str, int]
    ) -> None:
        self._tools.send(
            Result(
                job=chunk.job,
                chunk=chunk.chunk,
                revision=chunk.revision,
                blob=stored.name,
                hash=stored.hash,
                accepted=stored.result.accepted,
                rejected=stored.result.rejected,
                milliseconds=milliseconds,
                requests=requests,
                trace=self._tools.telemetry.current(),
            )
        )

    def _count_parked(self, work: ChunkMessage) -> None:
        self._tools.telemetry.add(metrics.CHUNKS, workload=work.workload, outcome="parked")


def _read(delivery: Delivery) -> Work:
    try:
        message: Internal = decode(unwrap(delivery.body))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _refuse_unreadable(f"{type(error).__name__}: {error}") from error
    if not isinstance(message, ChunkMessage | Finish):
        raise _refuse_unreadable(f"it is a {message.__struct_config__.tag}, which belongs on another queue")
    version = PARTS_VERSION if isinstance(message, ChunkMessage) and message.part is not None else VERSION
    if message.v != version:
        raise _refuse_unreadable(f"its version is {message.v}, and this is version {version}")
    if not is_job(message.job):
        raise _refuse_unreadable(f"no job can be called {message.job[:100]!r}")
    return message


def _refuse_unreadable(found: str) -> RefusedError:
    return RefusedError("unreadable", found, INSTEAD["unreadable"])


def _key(work: Work) -> str:
    return chunk_key(work.chunk, work.revision) if isinstance(work, ChunkMessage) else finish_key(work.revision)
