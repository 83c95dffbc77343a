"""Keeps the view of orders up to date."""

from typing import List

import azure.functions as func

from shared.app import RegistrationPart
from shared.parts import ORDER_EVENTS, ORDERS_VIEW
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `project_orders`."""
    functions = func.Blueprint()

    @functions.service_bus_topic_trigger(
        arg_name="messages",
        connection="SluiceBus",
        topic_name=ORDER_EVENTS,
        subscription_name=ORDERS_VIEW,
        cardinality=func.Cardinality.MANY,
        data_type=func.DataType.BINARY,  # with MANY the host would parse and rewrite bodies of any other type
    )
    def project_orders(messages: List[func.ServiceBusMessage]) -> None:
        with discreet():
            part.project_orders([message.get_body() for message in messages])

    return functions
