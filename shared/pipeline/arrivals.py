"""Deliveries of the queues of submissions, and the stage that parks them.

Only publishers send here, so a message may be anything; none is one of the app's own messages.
"""

from typing import Final

from shared.errors import NotParkedError, RefusedError
from shared.ledger import Ledger
from shared.messages import Delivery
from shared.parked import (
    ACCEPT,
    NO_JOB,
    Claim,
    Deliveries,
    Entry,
    Parking,
    PutOnQueue,
    Stage,
    add_job_id,
    at_the_door,
    read_claimed_job,
    submission_note,
)
from shared.payload import Limits, open_envelope, wait_for_newer
from shared.pipeline.accept import Acceptance
from shared.refusals import Reason
from shared.telemetry import events, metrics, tell
from shared.topology import room_of_queue, submission_queue

_REFUSALS: Final = frozenset(map(str, Reason))


class Arrivals:
    """Handles the deliveries of the queues of submissions. Safe to call from several threads."""

    def __init__(self, acceptance: Acceptance, parking: Parking, deliveries: Deliveries) -> None:
        self._acceptance, self._parking, self._deliveries = acceptance, parking, deliveries

    def handle(self, delivery: Delivery, until: float | None = None) -> None:
        """Handle a delivery. Return to acknowledge it. Raise to have it redelivered.

        `until`: the moment, by the monotonic clock, after which the dispatch begins no further step.
        """
        note = submission_note(delivery.queue, delivery.body, delivery.message_id)
        error = self._deliveries.attempt(
            note,
            delivery.count,
            lambda: self._accept(delivery, until),
            lambda error: self._parking.is_back(ACCEPT, delivery, error),
        )
        if error is not None:
            self._parking.park(ACCEPT, delivery, error)
            self._deliveries.forget(note, delivery.count)

    def _accept(self, delivery: Delivery, until: float | None) -> None:
        try:
            envelope = open_envelope(delivery.body, self._acceptance.limits)
        except RefusedError as refusal:
            wait_for_newer(delivery, refusal)
            raise
        room, again = room_of_queue(delivery.queue), delivery.count > 1
        outcome = self._acceptance.accept(envelope, delivery.message_id, room, again=again, until=until)
        self._acceptance.telemetry.add(metrics.SUBMISSIONS, outcome=outcome.value)
        tell(events.SUBMISSION_ACCEPTED, message_id=delivery.message_id, outcome=outcome.value)


def accept_stage(ledger: Ledger, put: PutOnQueue) -> Stage:
    """Return the stage of the queues of submissions."""
    return Stage(
        name=ACCEPT,
        reads=lambda queue: queue == submission_queue(room_of_queue(queue)),
        identify=_identify,
        put_back=lambda entry, body: put(entry, _with_job_id(entry, body)),
        has_landed=lambda entry: _has_landed(ledger, entry),
    )


def _identify(delivery: Delivery) -> Claim:
    queue, body, message_id = delivery.queue, delivery.body, delivery.message_id
    return at_the_door(queue, body, message_id, read_claimed_job(queue, body, message_id))


def _with_job_id(entry: Entry, body: bytes) -> bytes:
    """Return the submission with its job id in it, so that a replay makes no second job."""
    message, most = add_job_id(body, entry.about), Limits().message_bytes
    if len(message) > max(most, len(body)):
        raise NotParkedError(
            f"parked {entry.key!r} of job {entry.about!r} is {len(message)} bytes with its job id added, the limit is "
            f"{most}: publish it again under that job id with its transactions in a blob, then discard this entry"
        )
    return message


def _has_landed(ledger: Ledger, entry: Entry) -> bool:
    job = None if entry.about == NO_JOB else ledger.read(entry.about)
    if job is None:
        return False
    # A refused message made no job: a job from before belongs to another submission. A message that killed its worker,
    # or that was parked after its last delivery, may have made its job before.
    return job.accepted_at >= entry.last_at or (entry.reason not in _REFUSALS and job.plan is not None)
