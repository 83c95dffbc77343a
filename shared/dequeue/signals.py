"""Sends permits over the bus; losing one costs latency, not work: the tick finds what nobody works on."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Protocol

from azure.servicebus import ServiceBusMessage

from shared.closing import Closing
from shared.connections import Connections
from shared.dequeue.permits import KIND, Permit, encode
from shared.kept_sender import FAILURES, KeptSender
from shared.telemetry import events
from shared.telemetry.event import tell
from shared.telemetry.failure import told

TOPIC: Final = "signals"
#: Two intervals of the tick: by then it has sent another where one is needed.
LIFETIME: Final = timedelta(minutes=2)
#: Permits in one transfer, well under what a message of the cheapest tier may have.
MOST_AT_ONCE: Final = 100


class SendPermits(Protocol):
    """Sends permits, or says in the log why not."""

    def __call__(self, permits: Sequence[Permit], /) -> int:
        """Send them and return how many were sent; never raises because of the bus."""
        ...


class BusPermits(Closing):
    """SendPermits over Service Bus, on a connection that is kept; close it when done."""

    def __init__(self, connections: Connections) -> None:
        self._sender = KeptSender(connections, TOPIC, lambda bus: bus.get_topic_sender(TOPIC))

    def __call__(self, permits: Sequence[Permit], /) -> int:
        """Send them; a bus that is away is left to the tick."""
        sent = 0
        for begin in range(0, len(permits), MOST_AT_ONCE):
            batch = permits[begin : begin + MOST_AT_ONCE]
            try:
                self._sender.send([_message(permit) for permit in batch])
            except FAILURES as error:
                tell(events.PERMITS_UNSENT, permits=len(permits) - sent, error=told(error))
                break
            sent += len(batch)
        return sent

    def close(self) -> None:
        """Close the connection."""
        self._sender.close()


def _message(permit: Permit) -> ServiceBusMessage:
    return ServiceBusMessage(
        encode(permit),
        application_properties={"kind": KIND, "slot": permit.slot},
        subject=KIND,
        content_type="application/json",
        time_to_live=LIFETIME,
    )
