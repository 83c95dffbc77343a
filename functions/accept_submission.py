"""Accepts the submissions of the common room, also of publishers who send no hint, and dispatches their chunks."""

import azure.functions as func

from shared.app import App
from shared.messages import Delivery
from shared.telemetry import discreet
from shared.topology import submission_queue


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `accept_submission`."""
    functions = func.Blueprint()

    @functions.queue_trigger(
        arg_name="message",
        queue_name=submission_queue(),
        connection="SluiceStorage",
        data_type=func.DataType.BINARY,  # so that the host passes the publisher's body on unchanged
    )
    def accept_submission(message: func.QueueMessage) -> None:
        count = message.dequeue_count or 1
        body, name, receipt = message.get_body(), message.id or "", message.pop_receipt or ""
        with discreet():
            queue = submission_queue()
            app.accept(Delivery(queue=queue, message_id=name, body=body, count=count, receipt=receipt))

    return functions
