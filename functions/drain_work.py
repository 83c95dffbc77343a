"""Push mode only: a permit starts a few tasks that drain the work queues."""

import azure.functions as func

from shared.app import App
from shared.telemetry import discreet


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `drain_work`, and nothing where triggers take the work."""
    functions = func.Blueprint()
    if not app.is_pushed:
        return functions

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
