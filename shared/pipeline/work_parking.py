"""The stages `process` and `finish` for parking: their keys, how to put messages back, and how to see that they landed."""

from typing import Final

from shared.ledger import FINISHED, Ledger
from shared.messages import ChunkMessage, Delivery, FinishStep, PortionMessage, Result
from shared.parked import NO_JOB, Claim, Entry, PutOnQueue, Stage, identify_message, read_message
from shared.pipeline.bus_results import SendResult
from shared.pipeline.received import is_chunk_done
from shared.pipeline.results import QUEUE
from shared.topology import is_work_queue

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
