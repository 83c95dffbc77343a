"""Credits the results of chunks to their jobs, many results at a time."""

from typing import List

import azure.functions as func

from shared.app import App
from shared.pipeline import LOOKS_PROPERTY, Received
from shared.telemetry import discreet


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `settle_results`."""
    functions = func.Blueprint()

    @functions.service_bus_queue_trigger(
        arg_name="results",
        connection="SluiceBus",
        queue_name="results",
        cardinality=func.Cardinality.MANY,
        data_type=func.DataType.BINARY,  # with MANY the host would parse and rewrite bodies of any other type
    )
    def settle_results(results: List[func.ServiceBusMessage]) -> None:
        received = [_receive(one) for one in results]
        with discreet():
            app.settle(received)

    return functions


def _receive(one: func.ServiceBusMessage) -> Received:
    looks = int(one.application_properties.get(LOOKS_PROPERTY, 0))
    return Received(one.get_body(), one.message_id or "", one.delivery_count or 1, looks)
