"""The stages of the work queues for parking: their keys, how their messages are put back, and when an entry has had its effect."""

from functools import partial
from typing import Final

from shared.ledger import CLOSED, FINISHED, Ledger
from shared.messages import ChunkMessage, Delivery, FinishStep, PortionMessage, Result
from shared.parked import (
    NO_JOB,
    Claim,
    Entry,
    PutOnQueue,
    Stage,
    identify_message,
    mark_again,
    range_of_key,
    read_message,
)
from shared.pipeline.failing.aside import TRANSACTIONS
from shared.pipeline.results import QUEUE, SendResult
from shared.pipeline.settle import find_done, is_chunk_done, refuse_sealed
from shared.topology import is_work_queue

#: Names of the stages; they are stored.
PROCESS: Final = "process"
FINISH: Final = "finish"
#: A result has one and a half kibibytes beside its content.
LONGEST_REASON: Final = 200


def work_stages(ledger: Ledger, put: PutOnQueue, send: SendResult) -> tuple[Stage, Stage, Stage]:
    """Return the stages of the work queues: finishes with their segments and shards, what was set aside, chunks and all else."""
    refuse = partial(refuse_sealed, ledger)
    finish = Stage(
        name=FINISH,
        # A finish message may also be on the bus, by mistake. Its entry belongs to its job nevertheless.
        reads=lambda queue: is_work_queue(queue) or queue == QUEUE,
        identify=_identify_finish,
        put_back=put,
        has_landed=lambda entry: _is_finished(ledger, entry),
        remedy="correct the workload or what it depends on, deploy, resume the job, then replay",
        wakes=True,
        refuse=refuse,
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
        refuse=refuse,
    )
    process = Stage(
        name=PROCESS,
        reads=is_work_queue,
        identify=lambda delivery: identify_message(PROCESS, delivery.body),
        put_back=put_again,
        has_landed=lambda entry: _has_run(ledger, entry),
        on_parked=report,
        wakes=True,
        refuse=refuse,
    )
    return finish, transactions, process


def _identify_finish(delivery: Delivery) -> Claim | None:
    is_of_finish = isinstance(read_message(delivery.body), FinishStep)
    return identify_message(FINISH, delivery.body) if is_of_finish else None


def _identify_aside(delivery: Delivery) -> Claim | None:
    message = read_message(delivery.body)
    is_aside = isinstance(message, ChunkMessage) and message.aside
    return identify_message(TRANSACTIONS, delivery.body) if is_aside else None


def _has_run(ledger: Ledger, entry: Entry) -> bool:
    """Check whether a chunk is done, or a range is a stretch of its job, or is one no more."""
    if (stretch := range_of_key(entry.key)) is None:
        return is_chunk_done(ledger, entry.job, entry.chunk, entry.revision)
    job = ledger.read(entry.job)
    return job is None or not job.growing or job.state in CLOSED or job.stretches > stretch


def _has_passed(ledger: Ledger, entry: Entry) -> bool:
    """Check whether nothing of the chunk is set aside any more, or its job ran again."""
    row = find_done(ledger, entry.job, entry.chunk, entry.revision)
    return row is not None and (not row.aside or row.revision > (entry.revision or row.revision))


def _is_finished(ledger: Ledger, entry: Entry) -> bool:
    job = None if entry.job == NO_JOB else ledger.read(entry.job)
    return job is not None and job.state in FINISHED and job.revision >= (entry.revision or 0)


def make_parked_result(chunk: ChunkMessage, entry: Entry) -> Result:
    """Return the message to the ledger about a parked chunk. Its lines may be unreadable, so it has no sums."""
    lost = PortionMessage(items=chunk.items, sums=None)
    reason = entry.reason[:LONGEST_REASON]
    return Result(job=chunk.job, chunk=chunk.chunk, revision=chunk.revision, parked=lost, reason=reason)
