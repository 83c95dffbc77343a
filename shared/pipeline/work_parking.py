"""The stages `process` and `finish` as parking knows them: keys, putting back, and the proof that an entry has landed."""

from typing import Final

from shared.ledger import FINISHED, Ledger
from shared.messages import ChunkMessage, Delivery, Finish, PortionMessage, Result, SendResult
from shared.parked import NO_JOB, Claim, Entry, PutOnQueue, Stage, identify_message, read_message
from shared.pipeline.received import is_chunk_done
from shared.pipeline.results import QUEUE
from shared.topology import is_work_queue

#: The names of the stages; they are stored.
PROCESS: Final = "process"
FINISH: Final = "finish"
#: A result message has one kibibyte.
LONGEST_REASON: Final = 200


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
        if claim.chunk is not None and isinstance(message := read_message(body), ChunkMessage):
            # Where its result is stored after all, the ledger takes that one over this.
            send(make_parked_result(message, entry))

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


def make_parked_result(chunk: ChunkMessage, entry: Entry) -> Result:
    """Return the message to the ledger about a chunk that is parked; its lines may be unreadable, and so its sums."""
    lost = PortionMessage(items=sum(frame[2] for frame in chunk.frames), sums=None)
    reason = entry.reason[:LONGEST_REASON]
    return Result(job=chunk.job, chunk=chunk.chunk, revision=chunk.revision, parked=lost, reason=reason)
