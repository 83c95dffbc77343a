"""Parks what the host and the bus gave up on, so that there is one place to look; each message by itself."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec
from azure.storage.queue import QueueClient, QueueMessage

from shared.answers import expecting_an_answer
from shared.errors import RefusedError
from shared.parked.door import at_the_door, claimed_job, is_nameless
from shared.parked.entry import INSTEAD, NO_JOB, Entry, Stage, chunk_key, content_key, finish_key, result_key
from shared.parked.parking import FailedMessage, Parking, parked_result
from shared.parked.policy import Attempts, submission_note
from shared.payload.names import is_job
from shared.pipeline.messages import Chunk, Finish, Internal, Result, decode, unwrap
from shared.pipeline.send_result import SendResult
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import place, told
from shared.topology import POISON_SUFFIX, room_of_queue, submission_queue
from shared.trying import all_tried

RESULTS: Final = "results"
#: What one receive brings at most, and for how many seconds nobody else sees it.
_PAGE: Final = 32
_HIDDEN: Final = 60


def drain_poison(
    queue: QueueClient, parking: Parking, send: SendResult, attempts: Attempts, most: int = 10 * _PAGE
) -> int:
    """Park what lies on a poison queue, and return how much it was; one request when it is empty.

    A message that cannot be parked now stays, and those behind it do not wait for it; its error is raised at the end.
    """
    drain = _Drain(queue, parking, send, attempts)
    try:
        all_tried(
            (partial(drain.park, message) for message in drain.received(most)),
            lambda error: tell(events.POISON_KEPT, queue=queue.queue_name, error=told(error), at=place(error)),
        )
    finally:
        if drain.parked:
            tell(events.POISON_DRAINED, queue=queue.queue_name, messages=drain.parked)
    return drain.parked


@dataclass(slots=True)
class _Drain:
    """One pass over a poison queue."""

    queue: QueueClient
    parking: Parking
    send: SendResult
    attempts: Attempts
    parked: int = 0

    def received(self, most: int) -> Iterator[QueueMessage]:
        """Yield what is on the queue, a page at a time."""
        received = 0
        while received < most:
            with expecting_an_answer(f"drain queue {self.queue.queue_name!r}"):
                messages = self.queue.receive_messages(messages_per_page=_PAGE, visibility_timeout=_HIDDEN)
                page = list(next(messages.by_page(), ()))
            if not page:
                return
            yield from page
            received += len(page)

    def park(self, message: QueueMessage) -> None:
        """Park one message, then take it off the queue."""
        body, source = message.content.encode(), self.queue.queue_name.removesuffix(POISON_SUFFIX)
        why = f"the host moved it from {source} to {self.queue.queue_name}"
        dropped_as: list[str] = []
        if stage_of(source) is Stage.ACCEPT:
            dropped_as = self.attempts.dropped_as(source, body) if is_nameless(body) else []
            failed, error = _given_up(source, body, message.id, dropped_as, why)
            self.parking.park(failed, error)
        else:
            error = RefusedError("delivered_too_often", why, INSTEAD["delivered_too_often"])
            self._report(body, self.parking.park(described(source, body, message.id), error))
        with expecting_an_answer(f"take a parked message off queue {self.queue.queue_name!r}"):
            # Only now: a crash before this parks the same message again, which changes nothing.
            self.queue.delete_message(message)
        self.parked += 1
        if len(dropped_as) == 1:
            # And the note after that: the same message, parked again, must find the same id.
            self.attempts.forget(submission_note(source, body, dropped_as[0]))

    def _report(self, body: bytes, entry: Entry) -> None:
        message = _message(body)
        if isinstance(message, Chunk):
            # Where its result is stored after all, the ledger takes that one over this.
            self.send(parked_result(message, entry))


def _given_up(
    source: str, body: bytes, message_id: str, dropped_as: list[str], why: str
) -> tuple[FailedMessage, RefusedError]:
    """Return what is parked of a submission: under the id that its publisher's message had, for the copy has another."""
    claimed = claimed_job(source, body, dropped_as[0] if len(dropped_as) == 1 else "")
    reason = "delivered_too_often"
    if claimed == NO_JOB and is_nameless(body):
        reason = "unnamed"
        known = f"{len(dropped_as)} messages of this content were" if dropped_as else "none of this content was"
        why = f"{why}; it says no job id, and {known} noted before"
    return at_the_door(source, body, message_id, claimed), RefusedError(reason, why, INSTEAD[reason])


def park_dead_result(parking: Parking, body: bytes, message_id: str, why: str) -> None:
    """Park a message from the dead letters of the bus queue `results`; its chunk counts as not ended yet."""
    found = f"the bus moved it to its dead letters: {why[:500]}"
    dead = RefusedError("dead_lettered", found, INSTEAD["dead_lettered"])
    parking.park(described(RESULTS, body, message_id), dead)


def stage_of(queue: str) -> Stage:
    """Return the stage that reads a queue."""
    if queue == submission_queue(room_of_queue(queue)):
        return Stage.ACCEPT
    return Stage.SETTLE if queue == RESULTS else Stage.PROCESS


def described(queue: str, body: bytes, message_id: str) -> FailedMessage:
    """Return a message of the app's own, which nobody worked on, as what it claims to be."""
    stage = stage_of(queue)
    failed = FailedMessage(
        stage=stage, queue=queue, key=content_key(stage, body), body=body, message_id=message_id, deliveries=1
    )
    match _message(body):
        case Chunk(job=job, chunk=chunk, revision=revision):
            return replace(failed, key=chunk_key(chunk, revision), job=job, chunk=chunk, revision=revision)
        case Result(job=job, chunk=chunk, revision=revision):
            return replace(failed, key=result_key(chunk, revision), job=job, chunk=chunk, revision=revision)
        case Finish(job=job, revision=revision):
            return replace(failed, stage=Stage.FINISH, key=finish_key(revision), job=job, revision=revision)
    return failed


def _message(body: bytes) -> Internal | None:
    try:
        message = decode(unwrap(body))
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return message if is_job(message.job) else None
