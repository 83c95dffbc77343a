"""Accepts the submissions of the queue `submissions` and of the rooms' queues, and dispatches their chunks."""

import azure.functions as func

from shared.app import App
from shared.messages import Delivery
from shared.telemetry import discreet
from shared.topology import submission_queue


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `accept_submission`, and one more function per room."""
    functions = func.Blueprint()
    for room in ("", *app.settings.rooms):
        _register(functions, room, app)
    return functions


def _register(functions: func.Blueprint, room: str, app: App) -> None:
    queue = submission_queue(room)

    # A room has no underscore, so no two of them have functions of the same name.
    @functions.function_name(f"accept_submission_{room.replace('-', '_')}" if room else "accept_submission")
    @functions.queue_trigger(
        arg_name="message",
        queue_name=queue,
        connection="SluiceStorage",
        data_type=func.DataType.BINARY,  # so that the host passes the publisher's body on unchanged
    )
    def accept_submission(message: func.QueueMessage) -> None:
        count = message.dequeue_count or 1
        body, name, receipt = message.get_body(), message.id or "", message.pop_receipt or ""
        with discreet():
            app.accept(Delivery(queue=queue, message_id=name, body=body, count=count, receipt=receipt))
