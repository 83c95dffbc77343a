"""Starts the held orders that a gate released."""

from typing import List

import azure.functions as func

from shared.app import RegistrationPart
from shared.parts import STARTS
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `start_orders`."""
    functions = func.Blueprint()

    @functions.service_bus_queue_trigger(
        arg_name="messages",
        connection="SluiceBus",
        queue_name=STARTS,
        cardinality=func.Cardinality.MANY,
        data_type=func.DataType.BINARY,  # with MANY the host would parse and rewrite bodies of any other type
    )
    def start_orders(messages: List[func.ServiceBusMessage]) -> None:
        with discreet():
            part.start([message.get_body() for message in messages])

    return functions
