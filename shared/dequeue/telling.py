"""Writes down what goes wrong with messages while a listener runs; a host does that for its own triggers only."""

from shared.pipeline.messages import Delivery
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import place, told


class Telling:
    """An observer that tells in events."""

    def on_next(self, delivery: Delivery, /) -> None:
        """Tell nothing: what came of the message is told where it was worked on."""

    def on_error(self, error: BaseException, delivery: Delivery | None, /) -> None:
        """Tell of a message that is tried again, or of a queue that did not answer."""
        if delivery is None:
            tell(events.RECEIVE_FAILED, error=told(error))
            return
        tell(
            events.MESSAGE_FAILED,
            queue=delivery.queue,
            message_id=delivery.message_id,
            delivery=delivery.count,
            error=told(error),
            at=place(error),
        )

    def on_completed(self) -> None:
        """Tell nothing: tasks come and go."""
