"""State of one Service Bus listener in every form of dispatch: its trigger, its limits, how to run and when to stop."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from azure.functions.meta import Datum
from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusReceiver

from functions_local_host.bus_settlement import settle
from functions_local_host.bus_source import BusTrigger
from functions_local_host.contract import IndexedFunction, Invoke
from functions_local_host.host_json import BusOptions
from functions_local_host.message_datums import UnreadableBodyError, bus_batch_datums, bus_datums

_log = logging.getLogger(__name__)

#: The longest that one receive waits, and so the longest that a stop takes while nothing runs. A receive is not cut
#: off instead: a frame half read would leave its message locked and unseen.
RECEIVE_SLICE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class BusRun:
    """The shared part of single, session and batch dispatch."""

    function: IndexedFunction
    trigger: BusTrigger
    options: BusOptions
    invoke: Invoke
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def one(self, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage) -> None:
        """Run the function for one message and settle it."""
        is_ok = False
        try:
            is_ok = await self._invoke(*bus_datums(message, self.function.trigger))
        except UnreadableBodyError as error:
            _log.warning("a message from %s failed: %s", self.trigger.source, error)
        await settle(receiver, message, is_ok=is_ok, completes=self.trigger.completes)

    async def batch(self, receiver: ServiceBusReceiver, messages: Sequence[ServiceBusReceivedMessage]) -> None:
        """Run the function for all messages at once. They are all completed or all abandoned."""
        is_ok = False
        try:
            is_ok = await self._invoke(*bus_batch_datums(messages, self.function.trigger))
        except UnreadableBodyError as error:
            _log.warning("a batch of %d messages from %s failed: %s", len(messages), self.trigger.source, error)
        for message in messages:
            await settle(receiver, message, is_ok=is_ok, completes=self.trigger.completes)

    async def receive(
        self, receiver: ServiceBusReceiver, most: int, longest: timedelta
    ) -> list[ServiceBusReceivedMessage]:
        """Return the messages that arrive within `longest`, at most `most`. It is empty when the host stops."""
        loop = asyncio.get_running_loop()
        end = loop.time() + longest.total_seconds()
        messages: list[ServiceBusReceivedMessage] = []
        while not messages and not self.stopping.is_set() and (left := end - loop.time()) > 0:
            wait = min(left, RECEIVE_SLICE.total_seconds())
            messages = await receiver.receive_messages(max_message_count=most, max_wait_time=wait)
        return messages

    async def _invoke(self, datum: Datum, metadata: dict[str, Datum]) -> bool:
        outcome = await self.invoke(self.function.name, datum, metadata)
        return outcome.ok
