"""Obeys the commands to the seats of conferences, with one function per lane."""

from typing import List

import azure.functions as func

from shared.app import RegistrationPart
from shared.parts import seat_lane_names
from shared.telemetry import discreet


def blueprint(part: RegistrationPart) -> func.Blueprint:
    """Return the blueprint that registers `sell_seats_00`, and one more function per further lane."""
    functions = func.Blueprint()
    for number, queue in enumerate(seat_lane_names(part.seat_lanes)):
        _register(functions, number, queue, part)
    return functions


def _register(functions: func.Blueprint, number: int, queue: str, part: RegistrationPart) -> None:
    @functions.function_name(f"sell_seats_{number:02}")
    @functions.service_bus_queue_trigger(
        arg_name="messages",
        connection="SluiceBus",
        queue_name=queue,
        cardinality=func.Cardinality.MANY,
        is_sessions_enabled=True,  # a batch is of one session: the commands to one conference, in their order
        data_type=func.DataType.BINARY,  # with MANY the host would parse and rewrite bodies of any other type
    )
    def sell_seats(messages: List[func.ServiceBusMessage]) -> None:
        with discreet():
            part.sell([message.get_body() for message in messages])
