"""Processes the messages of a work queue: run a chunk once, store its result, tell the ledger; or park it.

The order of the writes is what makes it safe to be killed anywhere: the result before the message about it, the parked
entry before the message about it, and both before the host deletes the work message.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec import structs

from shared.clock import Clock
from shared.errors import RefusedError
from shared.ledger.ledger import Ledger
from shared.ledger.records import FINISHED
from shared.parked.entry import ACCEPT, INSTEAD, NO_JOB, SETTLED, Entry, chunk_key, content_key, finish_key
from shared.parked.parking import Claim, Parking, PutOnQueue, Stage, identify_message, read_message
from shared.parked.policy import Deliveries
from shared.payload.limits import Limits
from shared.payload.names import is_job
from shared.pipeline.chunk_reader import ReadChunk
from shared.pipeline.chunk_result import ResultStore, StoredResult
from shared.pipeline.messages import VERSION, Chunk, Delivery, Finish, Internal, Outcome, Result, decode, unwrap
from shared.pipeline.parts import run_in_parts
from shared.pipeline.received import is_chunk_done
from shared.pipeline.send_result import QUEUE, SendResult
from shared.telemetry import metrics
from shared.telemetry.spans import Piece
from shared.telemetry.telemetry import SILENT, Telemetry
from shared.topology import is_work_queue
from shared.usage.bill import charges
from shared.usage.meter import tallied
from shared.workloads.registry import Workloads

Work: TypeAlias = Chunk | Finish

#: The names of the stages; they are stored.
PROCESS: Final = "process"
FINISH: Final = "finish"
#: A result message has one kibibyte.
LONGEST_REASON: Final = 200


class Finishing(Protocol):
    """What becomes of finish messages."""

    def finish(self, message: Finish, /) -> object:
        """Finish the job at this revision."""

    def halt(self, message: Finish, error: Exception, /) -> None:
        """Pause the job, whose outputs cannot be made for this reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What processing needs of the outside."""

    workloads: Workloads
    read: ReadChunk
    results: ResultStore
    send: SendResult
    parking: Parking
    deliveries: Deliveries
    finishing: Finishing
    clock: Clock
    limits: Limits = field(default_factory=Limits)
    telemetry: Telemetry = SILENT


class Processor:
    """Handles the deliveries of the work queues; safe to call from several threads."""

    def __init__(self, tools: Tools) -> None:
        self._tools, self._deliveries = tools, tools.deliveries

    def handle(self, delivery: Delivery) -> None:
        """Return when the message needs nobody any more; raise to have it delivered again."""
        try:
            work = _read(delivery)
        except RefusedError as error:
            # Nothing of it is believed: it is known by its bytes.
            claim = Claim(key=content_key(PROCESS, delivery.body))
            self._tools.parking.park(PROCESS, delivery, error, claim)
            return
        if not self._is_settled(work, delivery):
            self._attempt(work, delivery)

    def _is_settled(self, work: Work, delivery: Delivery) -> bool:
        """Tell the ledger again what became of work that was done or parked before; whether it was."""
        # A first delivery is nearly always the only one, so it does not pay for looking.
        if delivery.count == 1 and not (isinstance(work, Chunk) and work.again):
            return False
        if isinstance(work, Chunk) and self._sent_stored(work):
            return True
        parked = self._tools.parking.table.find(work.job, _key(work))
        # One that was replayed since is this delivery's to run.
        if parked is None or parked.stage == ACCEPT or parked.state not in SETTLED:
            return False
        if isinstance(work, Chunk):
            self._tools.send(parked_result(work, parked))
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

    def _run(self, work: Chunk) -> None:
        started = self._tools.clock.monotonic()
        with tallied() as requests:
            workload = self._tools.workloads.named(work.workload)
            with self._tools.read(work) as parts:
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
        # A zombie of this chunk may have stored its result meanwhile; what is done is not parked.
        if isinstance(work, Chunk) and self._sent_stored(work):
            return
        if isinstance(work, Finish):
            # Or the job would wait for its outputs for ever, and look as if it were about to be finished.
            self._tools.finishing.halt(work, error)
        self._tools.parking.park(FINISH if isinstance(work, Finish) else PROCESS, delivery, error)
        if isinstance(work, Chunk):
            self._count_parked(work)

    def _sent_stored(self, chunk: Chunk) -> bool:
        stored = self._tools.results.find(chunk)
        if stored is None:
            return False
        self._send_done(chunk, stored, 0, {})
        self._tools.telemetry.add(metrics.CHUNKS, workload=chunk.workload, outcome="found")
        return True

    def _send_done(self, chunk: Chunk, stored: StoredResult, milliseconds: int, requests: dict[str, int]) -> None:
        result = _done(chunk, stored, milliseconds, requests)
        self._tools.send(structs.replace(result, trace=self._tools.telemetry.current()))

    def _count_parked(self, work: Chunk) -> None:
        self._tools.telemetry.add(metrics.CHUNKS, workload=work.workload, outcome="parked")


def work_stages(ledger: Ledger, put: PutOnQueue, send: SendResult) -> tuple[Stage, Stage]:
    """Return the stages of the work queues: a finish is one, and every other message is taken for a chunk."""
    finish = Stage(
        name=FINISH,
        # The bus may hold one too, by mistake: its entry is that of its job all the same.
        reads=lambda queue: is_work_queue(queue) or queue == QUEUE,
        identify=_identify_finish,
        put_back=put,
        has_landed=lambda entry: _is_finished(ledger, entry),
        remedy="correct the workload or what it depends on, deploy, resume the job, then replay",
        wakes=True,
    )

    def report(entry: Entry, claim: Claim, body: bytes) -> None:
        if claim.chunk is not None and isinstance(message := read_message(body), Chunk):
            # Where its result is stored after all, the ledger takes that one over this.
            send(parked_result(message, entry))

    process = Stage(
        name=PROCESS,
        reads=is_work_queue,
        identify=lambda delivery: identify_message(PROCESS, delivery.body),
        put_back=put,
        has_landed=lambda entry: is_chunk_done(ledger, entry),
        on_parked=report,
        wakes=True,
    )
    return finish, process


def _identify_finish(delivery: Delivery) -> Claim | None:
    is_finish = isinstance(read_message(delivery.body), Finish)
    return identify_message(FINISH, delivery.body) if is_finish else None


def _is_finished(ledger: Ledger, entry: Entry) -> bool:
    job = None if entry.job == NO_JOB else ledger.read(entry.job)
    return job is not None and job.state in FINISHED and job.revision >= (entry.revision or 0)


def parked_result(chunk: Chunk, entry: Entry) -> Result:
    """Return the message to the ledger about a chunk that is parked; its lines may be unreadable, and so its sums."""
    lost = Outcome(items=sum(frame[2] for frame in chunk.frames), sums=None)
    reason = entry.reason[:LONGEST_REASON]
    return Result(job=chunk.job, chunk=chunk.chunk, revision=chunk.revision, parked=lost, reason=reason)


def _read(delivery: Delivery) -> Work:
    try:
        message: Internal = decode(unwrap(delivery.body))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _refused(f"{type(error).__name__}: {error}") from error
    if not isinstance(message, Chunk | Finish):
        raise _refused(f"it is a {type(message).__name__.lower()}, which belongs on another queue")
    if message.v != VERSION:
        raise _refused(f"its version is {message.v}, and this is version {VERSION}")
    if not is_job(message.job):
        raise _refused(f"no job can be called {message.job[:100]!r}")
    return message


def _refused(found: str) -> RefusedError:
    return RefusedError("unreadable", found, INSTEAD["unreadable"])


def _key(work: Work) -> str:
    return chunk_key(work.chunk, work.revision) if isinstance(work, Chunk) else finish_key(work.revision)


def _done(chunk: Chunk, stored: StoredResult, milliseconds: int, requests: dict[str, int]) -> Result:
    return Result(
        job=chunk.job,
        chunk=chunk.chunk,
        revision=chunk.revision,
        blob=stored.name,
        hash=stored.hash,
        accepted=stored.result.accepted,
        rejected=stored.result.rejected,
        milliseconds=milliseconds,
        requests=requests,
    )
