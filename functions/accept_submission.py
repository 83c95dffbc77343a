"""Takes what arrives on `submissions`: submissions of publishers, and the app's own dispatch messages."""

import azure.functions as func

from shared.pipeline.deliveries import Delivery
from shared.telemetry.failure import discreet
from shared.wiring import Line


def blueprint(line: Line) -> func.Blueprint:
    """Return the blueprint that registers `accept_submission`."""
    functions = func.Blueprint()

    @functions.queue_trigger(
        arg_name="message",
        queue_name="submissions",
        connection="SluiceStorage",
        data_type=func.DataType.BINARY,  # so that the host leaves the body alone, whatever a publisher wrote
    )
    def accept_submission(message: func.QueueMessage) -> None:
        count = message.dequeue_count or 1
        body, name = message.get_body(), message.id or ""
        with discreet():
            line.arrivals.handle(Delivery(queue="submissions", message_id=name, body=body, count=count))

    return functions
