"""Takes customers' messages of the queue `orders`: orders, and changes of them."""

import azure.functions as func

from shared.app import RegistrationPart
from shared.messages import Delivery
from shared.parts import ORDERS
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `take_orders`."""
    functions = func.Blueprint()

    @functions.queue_trigger(
        arg_name="message",
        queue_name=ORDERS,
        connection="SluiceStorage",
        data_type=func.DataType.BINARY,  # so that the host passes the sender's body on unchanged
    )
    def take_orders(message: func.QueueMessage) -> None:
        count = message.dequeue_count or 1
        body, name = message.get_body(), message.id or ""
        with discreet():
            part.verbs.take(Delivery(queue=ORDERS, message_id=name, body=body, count=count))

    return functions
