"""Starts held work when a signal reports an opened gate or more work. The gate's flag decides, not the signal."""

import azure.functions as func

from shared.app import App
from shared.signals import Hint
from shared.telemetry import discreet


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `release_gate`."""
    functions = func.Blueprint()

    @functions.service_bus_topic_trigger(
        arg_name="signal",
        connection="SluiceBus",
        topic_name="signals",
        subscription_name="release",
        data_type=func.DataType.BINARY,  # so that the host passes the body on unchanged
    )
    def release_gate(signal: func.ServiceBusMessage) -> None:
        with discreet():
            app.release(Hint.of(signal.subject, signal.application_properties), signal.delivery_count or 1)

    return functions
