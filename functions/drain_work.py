"""A permit starts a few tasks that drain the work queues. A feed call puts the chunks of jobs that wait for their turn."""

import azure.functions as func

from shared.app import App
from shared.telemetry import discreet


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `drain_work`. Where triggers take the work, it follows feed calls alone."""
    functions = func.Blueprint()

    @functions.service_bus_queue_trigger(
        arg_name="permit",
        connection="SluiceBus",
        queue_name="permits",
        data_type=func.DataType.BINARY,  # so that the host passes the body on unchanged
    )
    def drain_work(permit: func.ServiceBusMessage) -> None:
        # Not `async`: it waits for tasks of its own threads.
        with discreet():
            app.drain(permit.get_body(), permit.delivery_count or 1)

    return functions
