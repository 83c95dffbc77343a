"""Ends the orders whose window is over: a hint says that some are due."""

from typing import List

import azure.functions as func

from shared.app import RegistrationPart
from shared.parts import TIMEOUTS
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `expire_orders`."""
    functions = func.Blueprint()

    @functions.service_bus_queue_trigger(
        arg_name="messages",
        connection="SluiceBus",
        queue_name=TIMEOUTS,
        cardinality=func.Cardinality.MANY,
        data_type=func.DataType.BINARY,  # with MANY the host would parse and rewrite bodies of any other type
    )
    def expire_orders(messages: List[func.ServiceBusMessage]) -> None:
        with discreet():
            part.expire([message.get_body() for message in messages])

    return functions
