"""What arrives on `submissions`: submissions of publishers, and the app's own dispatch messages."""

from collections.abc import Callable
from typing import Final

import msgspec

from shared.parked.drain import described
from shared.parked.parking import Parking
from shared.payload import Reason, open_envelope, refuse
from shared.pipeline.accept import SUBMISSIONS, Acceptance
from shared.pipeline.deliveries import Deliveries, Delivery
from shared.pipeline.dispatch import Dispatcher
from shared.pipeline.messages import Dispatch, decode, encode
from shared.telemetry import events, metrics
from shared.telemetry.event import tell

DISPATCH: Final = "dispatch"


class Arrivals:
    """Handles the deliveries of `submissions`; safe to call from several threads."""

    def __init__(
        self,
        acceptance: Acceptance,
        dispatcher: Dispatcher,
        send: Callable[[str, str], None],
        parking: Parking,
        deliveries: Deliveries,
    ) -> None:
        self._acceptance, self._dispatcher, self._send = acceptance, dispatcher, send
        self._parking, self._deliveries = parking, deliveries

    def handle(self, delivery: Delivery) -> None:
        """Return when the message needs nobody any more; raise to have it delivered again."""
        self._deliveries.attempt(
            f"{SUBMISSIONS}|{delivery.message_id}",
            delivery.count,
            lambda: self._work(delivery),
            lambda error: self._park(delivery, error),
        )

    def _work(self, delivery: Delivery) -> None:
        # The envelope is opened within its limits before anything believes what kind it claims to be.
        envelope = open_envelope(delivery.body, self._acceptance.limits)
        if envelope.kind == DISPATCH:
            self._dispatch(envelope.body, again=delivery.count > 1)
            return
        outcome = self._acceptance.accept(envelope, delivery.message_id)
        self._acceptance.telemetry.add(metrics.SUBMISSIONS, outcome=outcome.value)
        tell(events.SUBMISSION_ACCEPTED, message_id=delivery.message_id, outcome=outcome.value)

    def _dispatch(self, body: bytes, *, again: bool) -> None:
        try:
            message = decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise refuse(Reason.WRONG_TYPE, f"the dispatch message: {error}") from error
        if isinstance(message, Dispatch) and not self._dispatcher.dispatch(message.job, again=again):
            # The time was up: the rest is another message's, sent before this one is deleted.
            self._send(SUBMISSIONS, encode(message).decode())

    def _park(self, delivery: Delivery, error: Exception) -> None:
        self._parking.park(described(SUBMISSIONS, delivery.body, delivery.message_id, delivery.count), error)
