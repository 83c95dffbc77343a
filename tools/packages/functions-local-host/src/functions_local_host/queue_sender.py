"""Puts a message into a queue that may not exist yet, as output bindings and poison moves do."""

from contextlib import suppress

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.storage.queue.aio import QueueClient


async def send_creating(queue: QueueClient, content: str) -> None:
    """Send, and make the queue first when storage says that it is missing: one request while it exists."""
    try:
        await queue.send_message(content)
    except ResourceNotFoundError:
        # Another instance may make it between the two requests.
        with suppress(ResourceExistsError):
            await queue.create_queue()
        await queue.send_message(content)
