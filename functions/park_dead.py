"""Parks the dead letters of the bus queue `results`."""

import azure.functions as func

from shared.app import App
from shared.telemetry import discreet


def blueprint(app: App) -> func.Blueprint:
    """Return the blueprint that registers `park_dead`."""
    functions = func.Blueprint()

    @functions.service_bus_queue_trigger(
        arg_name="letter",
        connection="SluiceBus",
        queue_name="results/$DeadLetterQueue",
        data_type=func.DataType.BINARY,  # so that the host passes the body on unchanged
    )
    def park_dead(letter: func.ServiceBusMessage) -> None:
        why = letter.application_properties.get("DeadLetterReason") or "no reason is given"
        with discreet():
            app.park(letter.get_body(), letter.message_id or "", str(why))

    return functions
