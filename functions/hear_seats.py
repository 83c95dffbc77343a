"""Gives the answers of seats to the orders that wait for them."""

from typing import List

import azure.functions as func

from shared.app import RegistrationPart
from shared.parts import PROCESSES, SEATS_EVENTS
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `hear_seats`."""
    functions = func.Blueprint()

    @functions.service_bus_topic_trigger(
        arg_name="messages",
        connection="SluiceBus",
        topic_name=SEATS_EVENTS,
        subscription_name=PROCESSES,
        cardinality=func.Cardinality.MANY,
        data_type=func.DataType.BINARY,  # with MANY the host would parse and rewrite bodies of any other type
    )
    def hear_seats(messages: List[func.ServiceBusMessage]) -> None:
        with discreet():
            part.hear([message.get_body() for message in messages])

    return functions
