"""Accepts submissions at once when a publisher's hint says that something was dropped. It says where to look at most."""

import azure.functions as func

from shared.app import App
from shared.signals import HINTED_QUEUE
from shared.telemetry import discreet


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `accept_hinted`."""
    functions = func.Blueprint()

    @functions.service_bus_queue_trigger(
        arg_name="hint",
        connection="SluiceBus",
        queue_name="hints",
        data_type=func.DataType.BINARY,  # so that the host does not parse a body by a publisher
    )
    def accept_hinted(hint: func.ServiceBusMessage) -> None:
        deliveries = hint.delivery_count or 1
        queue = str((hint.application_properties or {}).get(HINTED_QUEUE) or "")
        with discreet():
            app.accept_hinted(queue, deliveries)

    return functions
