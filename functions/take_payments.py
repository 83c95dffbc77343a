"""Takes a bank's messages of the bus queue `payments`."""

import azure.functions as func

from shared.app import RegistrationPart
from shared.messages import Delivery
from shared.parts import PAYMENTS
from shared.registration import PAYMENTS_QUEUE
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `take_payments`."""
    functions = func.Blueprint()

    @functions.service_bus_queue_trigger(
        arg_name="message",
        connection="SluiceBus",
        queue_name=PAYMENTS,
        data_type=func.DataType.BINARY,  # so that the host passes the sender's body on unchanged
    )
    def take_payments(message: func.ServiceBusMessage) -> None:
        count, name = message.delivery_count or 1, message.message_id or ""
        delivery = Delivery(queue=str(PAYMENTS_QUEUE), message_id=name, body=message.get_body(), count=count)
        with discreet():
            part.take(delivery)

    return functions
