"""The push of an opening: one message on the topic of signals, a hint that everybody may miss."""

import json
from datetime import timedelta
from typing import Final, Protocol

from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from shared.connections import Connections
from shared.errors import SignalNotSentError
from shared.usage.meter import BusOperation

TOPIC: Final = "signals"
KIND: Final = "release"
#: Two poll intervals of the tick: by then whoever missed it has found the flag by polling.
LIFETIME: Final = timedelta(minutes=2)


class Signals(Protocol):
    """Tells whoever listens that a gate was opened."""

    def send(self, gate: str, epoch: int) -> None:
        """Send the hint, or raise SignalNotSentError."""
        ...


class BusSignals:
    """Signals on Service Bus, with a connection of its own for each: openings are rare."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def send(self, gate: str, epoch: int) -> None:
        """Send the hint, or raise SignalNotSentError."""
        try:
            with self._connections.bus_client() as bus, bus.get_topic_sender(TOPIC) as sender:
                self._connections.meter.count_bus(BusOperation.SEND, TOPIC)
                sender.send_messages(release_message(gate, epoch))
        except (ServiceBusError, OSError) as error:
            self._connections.pushback.on_bus_error(error)
            raise SignalNotSentError(
                f"the signal that gate {gate!r} is open at epoch {epoch} was not sent ({type(error).__name__}): "
                "nobody misses it, everything is found by the next poll"
            ) from error


class NoSignals:
    """Signals of an installation without a bus."""

    def send(self, gate: str, epoch: int) -> None:
        """Raise SignalNotSentError: there is nobody to tell."""
        raise SignalNotSentError(
            f"there is no bus to signal that gate {gate!r} is open at epoch {epoch}: it is found by the next poll"
        )


def release_message(gate: str, epoch: int) -> ServiceBusMessage:
    """Return the message; subscriptions filter by `kind`, and the body is for languages that see no properties."""
    return ServiceBusMessage(
        json.dumps({"sluice": {"v": 1, "kind": KIND, "gate": gate, "epoch": epoch}}),
        application_properties={"kind": KIND, "gate": gate, "epoch": epoch},
        subject=gate,
        content_type="application/json",
        time_to_live=LIFETIME,
    )
