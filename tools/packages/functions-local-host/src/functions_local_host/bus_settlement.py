"""Completes or abandons Service Bus messages after a run."""

import logging

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusReceiver
from azure.servicebus.exceptions import ServiceBusError

_log = logging.getLogger(__name__)


async def settle(
    receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage, *, is_ok: bool, completes: bool
) -> None:
    """Complete after a success where the trigger completes by itself, abandon after a failure always.

    A settlement that fails is only logged: the lock ends, and the message is delivered again.
    """
    if is_ok and not completes:
        return
    try:
        if is_ok:
            await receiver.complete_message(message)
        else:
            await receiver.abandon_message(message)
    except (ServiceBusError, ValueError) as error:
        # ValueError: the receiver was shut down by a lost connection while the function ran.
        _log.warning(
            "message %r from %s was not %s: %s; it will be delivered again",
            message.message_id,
            receiver.entity_path,
            "completed" if is_ok else "abandoned",
            type(error).__name__,
        )
