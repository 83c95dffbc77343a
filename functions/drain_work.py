"""A permit starts a few tasks that drain the work queues. It comes by the bus, or on the storage queue `wake`.

A feed call comes the same way. It puts the chunks of jobs that wait for their turn.
"""

import azure.functions as func

from shared.app import App
from shared.messages import Delivery
from shared.telemetry import discreet
from shared.topology import WAKE


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `drain_work`, with the trigger that the settings name."""
    functions = func.Blueprint()
    (_register_push if app.is_pushed else _register_trigger)(functions, app)
    return functions


# Neither is `async`: each waits for tasks of its own threads.
def _register_push(functions: func.Blueprint, app: App) -> None:
    @functions.service_bus_queue_trigger(
        arg_name="permit",
        connection="SluiceBus",
        queue_name="permits",
        data_type=func.DataType.BINARY,  # so that the host passes the body on unchanged
    )
    def drain_work(permit: func.ServiceBusMessage) -> None:
        with discreet():
            app.drain(permit.get_body(), permit.delivery_count or 1)


def _register_trigger(functions: func.Blueprint, app: App) -> None:
    @functions.queue_trigger(
        arg_name="permit",
        queue_name=WAKE,
        connection="SluiceStorage",
        data_type=func.DataType.BINARY,  # so that no key of a body takes the place of the receipt
    )
    def drain_work(permit: func.QueueMessage) -> None:
        count = permit.dequeue_count or 1
        body, name, receipt = permit.get_body(), permit.id or "", permit.pop_receipt or ""
        with discreet():
            app.drain_woken(Delivery(queue=WAKE, message_id=name, body=body, count=count, receipt=receipt))
