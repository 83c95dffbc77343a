"""Parks the dead letters of all bus entities of registration, which are forwarded to one queue."""

from typing import List

import azure.functions as func

from shared.app import RegistrationPart
from shared.parts import DEAD
from shared.registration import DeadLetter
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `park_dead_orders`."""
    functions = func.Blueprint()

    @functions.service_bus_queue_trigger(
        arg_name="letters",
        connection="SluiceBus",
        queue_name=DEAD,
        cardinality=func.Cardinality.MANY,
        data_type=func.DataType.BINARY,  # with MANY the host would parse and rewrite bodies of any other type
    )
    def park_dead_orders(letters: List[func.ServiceBusMessage]) -> None:
        with discreet():
            part.verbs.park([_letter(one) for one in letters])

    return functions


def _letter(one: func.ServiceBusMessage) -> DeadLetter:
    why = one.dead_letter_reason or one.application_properties.get("DeadLetterReason") or "no reason is given"
    return DeadLetter(one.dead_letter_source or "", one.message_id or "", one.get_body(), str(why))
