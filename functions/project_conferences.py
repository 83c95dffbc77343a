"""Keeps the view of conferences up to date."""

from typing import List

import azure.functions as func

from shared.app import RegistrationPart
from shared.parts import CONFERENCES_VIEW, SEATS_EVENTS
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `project_conferences`."""
    functions = func.Blueprint()

    @functions.service_bus_topic_trigger(
        arg_name="messages",
        connection="SluiceBus",
        topic_name=SEATS_EVENTS,
        subscription_name=CONFERENCES_VIEW,
        cardinality=func.Cardinality.MANY,
        data_type=func.DataType.BINARY,  # with MANY the host would parse and rewrite bodies of any other type
    )
    def project_conferences(messages: List[func.ServiceBusMessage]) -> None:
        with discreet():
            part.project_conferences([message.get_body() for message in messages])

    return functions
