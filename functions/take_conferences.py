"""Takes a shop's messages of the bus queue `conferences`: conferences, their prices and their seats."""

import azure.functions as func

from shared.app import RegistrationPart
from shared.messages import Delivery
from shared.parts import CONFERENCES
from shared.registration import CONFERENCES_QUEUE
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `take_conferences`."""
    functions = func.Blueprint()

    @functions.service_bus_queue_trigger(
        arg_name="message",
        connection="SluiceBus",
        queue_name=CONFERENCES,
        data_type=func.DataType.BINARY,  # so that the host passes the sender's body on unchanged
    )
    def take_conferences(message: func.ServiceBusMessage) -> None:
        count, name = message.delivery_count or 1, message.message_id or ""
        delivery = Delivery(queue=str(CONFERENCES_QUEUE), message_id=name, body=message.get_body(), count=count)
        with discreet():
            part.take(delivery)

    return functions
