"""Parks the messages that the host and the bus gave up on, so that there is one place to look.

The limits of poison are in `poison_policy`.

Order per message: park it, delete it from the poison queue, forget its note. A crash in between parks the same message
again, which changes nothing. Parked again, it must find the same id, so the note goes last.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from azure.storage.queue import QueueClient, QueueMessage

from shared.azure import expecting_an_answer
from shared.errors import RefusedError
from shared.messages import Delivery
from shared.parked.attempts import Attempts
from shared.parked.door import at_the_door, is_nameless, read_claimed_job
from shared.parked.entry import ACCEPT, NO_JOB, submission_note
from shared.parked.parking import Claim, Parking, split_bundle
from shared.refusals import DeliveryReason, refuse
from shared.retry import all_tried
from shared.telemetry import describe_error, events, place, tell
from shared.topology import POISON_SUFFIX

RESULTS: Final = "results"
#: The upper bound of messages per receive, and the seconds for which other readers do not see them.
_PAGE: Final = 32
_HIDDEN: Final = 60


def drain_poison(queue: QueueClient, parking: Parking, attempts: Attempts, most: int = 10 * _PAGE) -> int:
    """Park the messages of a poison queue and return their number. An empty queue costs one request.

    A message that cannot be parked now stays, and those behind it do not wait for it. Its error is raised at the end.
    """
    drain = _Drain(queue, parking, attempts)
    try:
        all_tried(
            (partial(drain.park, message) for message in drain.receive(most)),
            lambda error: tell(
                events.POISON_KEPT, queue=queue.queue_name, error=describe_error(error), at=place(error)
            ),
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
    attempts: Attempts
    parked: int = 0

    def receive(self, most: int) -> Iterator[QueueMessage]:
        """Yield the messages on the queue, one page per request."""
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
        """Park one message, then delete it from the queue."""
        body, source = message.content.encode(), self.queue.queue_name.removesuffix(POISON_SUFFIX)
        why = f"the host moved it from {source} to {self.queue.queue_name}"
        delivery = Delivery(queue=source, message_id=message.id, body=body, count=1)
        stage, claim = self.parking.stages.identify(delivery)
        error, known_ids = refuse(DeliveryReason.DELIVERED_TOO_OFTEN, why), []
        if stage.name == ACCEPT:
            known_ids = self.attempts.list_drops(source, body) if is_nameless(body) else []
            claim, error = _explain_failure(delivery, known_ids, why)
        self.parking.park(stage.name, delivery, error, claim)
        with expecting_an_answer(f"delete a parked message from queue {self.queue.queue_name!r}"):
            self.queue.delete_message(message)
        self.parked += 1
        if len(known_ids) == 1:
            self.attempts.forget(submission_note(source, body, known_ids[0]))


def _explain_failure(delivery: Delivery, known_ids: list[str], why: str) -> tuple[Claim, RefusedError]:
    """Return claim and error of a submission.

    The poison copy has another id than the publisher's message, so the id comes from the notes of late deliveries.
    """
    body, reason = delivery.body, DeliveryReason.DELIVERED_TOO_OFTEN
    claimed = read_claimed_job(delivery.queue, body, known_ids[0] if len(known_ids) == 1 else "")
    if claimed == NO_JOB and is_nameless(body):
        reason = DeliveryReason.UNNAMED
        why = f"{why}; it has no job id, and {len(known_ids)} messages with its bytes were noted: one is needed for its id"
    claim = at_the_door(delivery.queue, body, delivery.message_id, claimed)
    return claim, refuse(reason, why)


def park_dead_result(parking: Parking, body: bytes, message_id: str, why: str) -> None:
    """Park a message from the dead letters of the bus queue `results`. Its chunks still count as not ended."""
    found = f"the bus moved it to its dead letters: {why[:500]}"
    for alone in split_bundle(body):
        delivery = Delivery(queue=RESULTS, message_id=message_id, body=alone, count=1)
        stage, claim = parking.stages.identify(delivery)
        parking.park(stage.name, delivery, refuse(DeliveryReason.DEAD_LETTERED, found), claim)
