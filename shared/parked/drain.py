"""Parks what the host and the bus gave up on, so that there is one place to look."""

from dataclasses import replace
from typing import Final

import msgspec
from azure.storage.queue import QueueClient

from shared.answers import expecting_an_answer
from shared.errors import RefusedError
from shared.parked.entry import INSTEAD, NO_JOB, Stage, chunk_key, content_key, finish_key, result_key, submission_key
from shared.parked.parking import FailedMessage, Parking, parked_result
from shared.payload.names import NAME
from shared.pipeline.messages import Chunk, Finish, Internal, Result, decode
from shared.pipeline.send_result import SendResult
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.topology import POISON_SUFFIX

SUBMISSIONS: Final = "submissions"
RESULTS: Final = "results"
#: What one receive brings at most, and for how many seconds nobody else sees it.
_PAGE: Final = 32
_HIDDEN: Final = 60


def drain_poison(queue: QueueClient, parking: Parking, send: SendResult, most: int = 10 * _PAGE) -> int:
    """Park what lies on a poison queue, and return how much it was; one request when it is empty."""
    drained, source = 0, queue.queue_name.removesuffix(POISON_SUFFIX)
    why = f"the host moved it from {source} to {queue.queue_name}"
    with expecting_an_answer(f"drain queue {queue.queue_name!r}"):
        while drained < most:
            messages = queue.receive_messages(messages_per_page=_PAGE, visibility_timeout=_HIDDEN)
            page = next(messages.by_page(), None)
            for message in page or ():
                body = message.content.encode()
                _park(described(source, body, message.id), "delivered_too_often", why, parking, send)
                # Only now: a crash before this parks the same message again, which changes nothing.
                queue.delete_message(message)
                drained += 1
            if not page:
                break
    if drained:
        tell(events.POISON_DRAINED, queue=queue.queue_name, messages=drained)
    return drained


def park_dead_result(parking: Parking, body: bytes, message_id: str, why: str) -> None:
    """Park a message from the dead letters of the bus queue `results`; its chunk counts as not ended yet."""
    found = f"the bus moved it to its dead letters: {why[:500]}"
    parking.park(described(RESULTS, body, message_id), RefusedError("dead_lettered", found, INSTEAD["dead_lettered"]))


def described(queue: str, body: bytes, message_id: str, deliveries: int = 1) -> FailedMessage:
    """Return a message that nobody worked on as what it claims to be."""
    stage = {SUBMISSIONS: Stage.ACCEPT, RESULTS: Stage.SETTLE}.get(queue, Stage.PROCESS)
    failed = FailedMessage(
        stage=stage,
        queue=queue,
        key=content_key(stage, body),
        body=body,
        message_id=message_id,
        deliveries=deliveries,
    )
    match _message(body):
        case Chunk(job=job, chunk=chunk, revision=revision):
            return replace(failed, key=chunk_key(chunk, revision), job=job, chunk=chunk, revision=revision)
        case Result(job=job, chunk=chunk, revision=revision):
            return replace(failed, key=result_key(chunk, revision), job=job, chunk=chunk, revision=revision)
        case Finish(job=job, revision=revision):
            return replace(failed, stage=Stage.FINISH, key=finish_key(revision), job=job, revision=revision)
    return replace(failed, key=submission_key(body), job=_claimed_job(body)) if stage is Stage.ACCEPT else failed


def _park(failed: FailedMessage, reason: str, found: str, parking: Parking, send: SendResult) -> None:
    entry = parking.park(failed, RefusedError(reason, found, INSTEAD[reason]))
    message = _message(failed.body)
    if isinstance(message, Chunk):
        # Where its result is stored after all, the ledger takes that one over this.
        send(parked_result(message, entry))


def _message(body: bytes) -> Internal | None:
    try:
        message = decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return message if NAME.fullmatch(message.job) else None


def _claimed_job(body: bytes) -> str:
    """Return the job id that a submission says, where it is one."""
    try:
        job = msgspec.json.decode(body)["sluice"]["job"]
    except (msgspec.DecodeError, RecursionError, TypeError, KeyError):
        return NO_JOB
    return job if isinstance(job, str) and NAME.fullmatch(job) else NO_JOB
