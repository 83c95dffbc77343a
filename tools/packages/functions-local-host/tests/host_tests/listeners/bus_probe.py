"""The bus as a publisher and an operator see it; closing a link takes the SDK a second, so links are kept."""

import asyncio

from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.aio import ServiceBusClient


class BusProbe:
    """Sends to and looks into entities, with one link for each."""

    def __init__(self, connection: str):
        self._client = ServiceBusClient.from_connection_string(connection)
        self._links = {}

    async def send(self, entity: str, *bodies: str, **properties) -> None:
        """Send the bodies in order to a queue, or to a topic by its name."""
        make = self._client.get_topic_sender if entity.startswith("topic") else self._client.get_queue_sender
        sender = self._links.setdefault(("send", entity), None) or make(entity)
        self._links["send", entity] = sender
        await sender.send_messages([ServiceBusMessage(body, **properties) for body in bodies])

    async def waiting(self, queue: str, **options) -> list[str]:
        """Return the bodies of all messages in a queue, locked or not."""
        return [str(message) for message in await self._peek(queue, **options)]

    async def is_empty(self, queue: str, **options) -> bool:
        """Whether every message was settled."""
        return not await self._peek(queue, **options)

    async def dead(self, queue: str) -> list:
        """Return the messages of the dead-letter queue."""
        return await self._peek(queue, sub_queue=ServiceBusSubQueue.DEAD_LETTER)

    async def has_dead(self, queue: str) -> bool:
        """Whether a message was dead-lettered."""
        return bool(await self.dead(queue))

    async def close(self) -> None:
        """Close all links at once."""
        await asyncio.gather(*(link.close() for link in self._links.values()))
        await self._client.close()

    async def _peek(self, queue: str, **options) -> list:
        key = (queue, *options.items())
        if key not in self._links:
            self._links[key] = self._client.get_queue_receiver(queue, **options)
        # From the first: a peek without a number goes on where the last one ended.
        return await self._links[key].peek_messages(max_message_count=100, sequence_number=1)
