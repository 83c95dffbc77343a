"""A subscriber of the events of orders and seats: subscriptions of its own, and all that it was told so far.

It knows docs/formats.md and uses the bus alone.
"""

import json
from contextlib import ExitStack, suppress
from typing import Any, Self

from azure.servicebus import ServiceBusClient
from azure.servicebus.exceptions import MessageLockLostError

#: The topics, each with its own subscription.
OWN = (("order-events", "auditor"), ("seats-events", "auditor"))
#: What answers an order.
ANSWERS = frozenset({"order_reserved", "order_partially_reserved", "order_rejected"})


class Subscriber(ExitStack):
    """Reads events as they come."""

    def __init__(self, bus: str) -> None:
        super().__init__()
        client = self.enter_context(ServiceBusClient.from_connection_string(bus))
        self._receivers = [self.enter_context(client.get_subscription_receiver(topic, name)) for topic, name in OWN]
        #: Each message as it came, copies too.
        self.told: list[dict[str, Any]] = []
        #: The orders of which an answer was told.
        self.answered: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def read(self, seconds: float = 0.2) -> int:
        """Read what is there, and wait so long for each topic. Return how many messages came."""
        number = 0
        for receiver in self._receivers:
            for message in receiver.receive_messages(500, max_wait_time=seconds):
                told = json.loads(b"".join(message.body))["sluice"]
                self.told.append(told)
                for stream in told["streams"]:
                    if any(event["kind"] in ANSWERS for event in stream["events"]):
                        self.answered.add(stream["home"].removeprefix("order-"))
                with suppress(MessageLockLostError):
                    # This reader was slower than its lock: the message comes once more, as docs/formats.md says.
                    receiver.complete_message(message)
                number += 1
        return number

    def read_all(self) -> None:
        """Read until nothing came for a moment."""
        while self.read(1.0):
            continue
