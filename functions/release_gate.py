"""Hears that a gate was opened and dispatches what is held behind it; the flag decides, not the signal."""

import azure.functions as func

from shared.telemetry.failure import discreet
from shared.wiring import Gatehouse


def blueprint(gates: Gatehouse) -> func.Blueprint:
    """Return the blueprint that registers `release_gate`."""
    functions = func.Blueprint()

    @functions.service_bus_topic_trigger(
        arg_name="signal",
        connection="SluiceBus",
        topic_name="signals",
        subscription_name="release",
        data_type=func.DataType.BINARY,  # so that the host leaves the body alone
    )
    def release_gate(signal: func.ServiceBusMessage) -> None:
        with discreet():
            gates.releaser.on_signal(signal.subject or "")

    return functions
