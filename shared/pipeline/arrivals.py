"""What arrives on `submissions`: submissions, and what publishers send that is none. Nothing of the app's own comes here."""

from shared.parked.door import at_the_door, claimed_job
from shared.parked.parking import Parking
from shared.parked.policy import Deliveries, submission_note
from shared.payload import open_envelope
from shared.pipeline.accept import Acceptance
from shared.pipeline.messages import Delivery
from shared.telemetry import events, metrics
from shared.telemetry.event import tell
from shared.topology import room_of_queue


class Arrivals:
    """Handles the deliveries of `submissions`; safe to call from several threads."""

    def __init__(self, acceptance: Acceptance, parking: Parking, deliveries: Deliveries) -> None:
        self._acceptance, self._parking, self._deliveries = acceptance, parking, deliveries

    def handle(self, delivery: Delivery) -> None:
        """Return when the message needs nobody any more; raise to have it delivered again."""
        note = submission_note(delivery.queue, delivery.body, delivery.message_id)
        error = self._deliveries.attempt(note, delivery.count, lambda: self._work(delivery))
        if error is not None:
            self._park(delivery, error)
            self._deliveries.forget(note, delivery.count)

    def _work(self, delivery: Delivery) -> None:
        envelope = open_envelope(delivery.body, self._acceptance.limits)
        room, again = room_of_queue(delivery.queue), delivery.count > 1
        outcome = self._acceptance.accept(envelope, delivery.message_id, room, again=again)
        self._acceptance.telemetry.add(metrics.SUBMISSIONS, outcome=outcome.value)
        tell(events.SUBMISSION_ACCEPTED, message_id=delivery.message_id, outcome=outcome.value)

    def _park(self, delivery: Delivery, error: Exception) -> None:
        queue, body, message_id = delivery.queue, delivery.body, delivery.message_id
        claimed = claimed_job(queue, body, message_id)
        self._parking.park(at_the_door(queue, body, message_id, claimed, delivery.count), error)
