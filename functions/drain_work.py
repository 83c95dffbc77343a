"""Is woken for work on the work queues and runs a few tasks until they are empty; registered in push mode only."""

import azure.functions as func

from shared.dequeue.drain import Drain
from shared.telemetry.failure import discreet


def blueprint(drain: Drain) -> func.Blueprint:
    """Return the blueprint that registers `drain_work`."""
    functions = func.Blueprint()

    @functions.service_bus_topic_trigger(
        arg_name="signal",
        connection="SluiceBus",
        topic_name="signals",
        subscription_name="work",
        data_type=func.DataType.BINARY,  # so that the host leaves the body alone
    )
    def drain_work(signal: func.ServiceBusMessage) -> None:
        # Not `async`: it waits for tasks of its own threads.
        with discreet():
            drain.on_signal(signal.get_body())

    return functions
