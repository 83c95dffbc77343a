"""Where events and commands of registration travel, and the queue of each kind that customers, shops and banks send."""

from collections.abc import Sequence
from typing import Final

from shared.azure import Destination
from shared.messaging import Command, ReceiverLanes, shard_of
from shared.parts import CONFERENCES, ORDER_EVENTS, ORDERS, PAYMENTS, SEATS_EVENTS, STARTS, TIMEOUTS
from shared.payload import Limits
from shared.refusals import Reason, refuse
from shared.registration.public_messages import OrderMessage, Payment, PlaceOrder, UpdateOrder, read_order_message
from shared.registration.seat_commands import SEATS_HOMES

#: The queue of orders that a gate released, as a held row names it.
STARTS_QUEUE: Final = Destination("bus", STARTS)
TIMEOUTS_QUEUE: Final = Destination("bus", TIMEOUTS)
ORDERS_QUEUE: Final = Destination("queue", ORDERS)
PAYMENTS_QUEUE: Final = Destination("bus", PAYMENTS)
CONFERENCES_QUEUE: Final = Destination("bus", CONFERENCES)
_ORDER_EVENTS: Final = Destination("topic", ORDER_EVENTS)
_SEATS_EVENTS: Final = Destination("topic", SEATS_EVENTS)


class OrderRoutes:
    """The routes. Commands of orders to seats go by lanes. Those of publishers are called in this process."""

    def __init__(self, lanes: Sequence[str]) -> None:
        self._lanes = ReceiverLanes(lanes)

    def topic_of(self, home: str) -> tuple[Destination, str]:
        """Return the topic of a home's events, and their session: the conference, or the shard of an order."""
        if home.startswith(SEATS_HOMES):
            return _SEATS_EVENTS, home.removeprefix(SEATS_HOMES)
        return _ORDER_EVENTS, str(shard_of(home))

    def queue_of(self, command: Command) -> Destination:
        """Return the lane of a command's conference."""
        return self._lanes.of(command.to)


def queue_of(message: OrderMessage) -> Destination:
    """Return the one queue of a message's kind. Who may send to a queue may send its kinds and no other."""
    if isinstance(message, PlaceOrder | UpdateOrder):
        return ORDERS_QUEUE
    return PAYMENTS_QUEUE if isinstance(message, Payment) else CONFERENCES_QUEUE


def read_from(queue: str, body: bytes) -> OrderMessage:
    """Return the message that came by a queue. Raises RefusedError, also if the senders of the queue may not send its kind."""
    message = read_order_message(body, Limits())
    if str(right := queue_of(message)) != queue:
        raise refuse(Reason.WRONG_QUEUE, f"it came by queue {queue!r}, its kind belongs on {str(right)!r}")
    return message
