"""Processes chunks and finishes jobs: the messages of the work queues, with one function per queue."""

import azure.functions as func

from shared.app import App
from shared.messages import Delivery
from shared.telemetry import discreet


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `process_chunk`, and `process_chunk_01` and so on for further queues."""
    functions = func.Blueprint()
    for number in range(0 if app.is_pushed else app.settings.work_queues):
        _register(functions, number, app)
    return functions


def _register(functions: func.Blueprint, number: int, app: App) -> None:
    queue = f"work-{number:02}"

    # Adding queues must not rename the function of the first one: settings of the host name it.
    @functions.function_name("process_chunk" if number == 0 else f"process_chunk_{number:02}")
    @functions.queue_trigger(
        arg_name="message",
        queue_name=queue,
        connection="SluiceStorage",
        data_type=func.DataType.BINARY,  # so that no key of a body takes the place of the receipt
    )
    def process_chunk(message: func.QueueMessage) -> None:
        # Not `async`: the worker runs it in a thread, so that the computation of one chunk holds up no other work.
        count = message.dequeue_count or 1
        body, name, receipt = message.get_body(), message.id or "", message.pop_receipt or ""
        with discreet():
            app.process(Delivery(queue=queue, message_id=name, body=body, count=count, receipt=receipt))
