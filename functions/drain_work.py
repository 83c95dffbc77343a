"""Push mode only: a signal starts a few tasks that drain the work queues."""

import azure.functions as func

from shared.app import App
from shared.telemetry import discreet


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `drain_work`, and nothing where triggers take the work."""
    functions = func.Blueprint()
    if not app.is_pushed:
        return functions

    @functions.service_bus_topic_trigger(
        arg_name="signal",
        connection="SluiceBus",
        topic_name="signals",
        subscription_name="work",
        data_type=func.DataType.BINARY,  # so that the host passes the body on unchanged
    )
    def drain_work(signal: func.ServiceBusMessage) -> None:
        # Not `async`: it waits for tasks of its own threads.
        with discreet():
            app.drain(signal.get_body(), signal.delivery_count or 1)

    return functions
