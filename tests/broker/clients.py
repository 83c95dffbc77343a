"""One way to write a test for the sync and the aio client: every call is awaited."""

import asyncio
import contextlib
import inspect

from azure.servicebus import ServiceBusClient
from azure.servicebus.aio import ServiceBusClient as AioServiceBusClient


class Awaited:
    """An SDK object whose methods are awaited, whichever client it is from."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        found = getattr(self.inner, name)
        if name == "session":
            return Awaited(found)
        if not callable(found):
            return found
        if inspect.iscoroutinefunction(found):
            return found

        async def call(*args, **kwargs):
            result = await asyncio.to_thread(found, *args, **kwargs)
            # A decorated coroutine function looks like a plain one.
            return await result if inspect.isawaitable(result) else result

        return call


class Clients:
    """Opens senders and receivers of one kind of client, and closes them at the end."""

    def __init__(self, connection_string, kind, closing):
        self._connection_string = connection_string
        self._kind = kind
        #: A pool on which sync handlers close after the test: each waits a second for a thread of its own.
        self._closing = closing
        self._clients = []
        self._handlers = []

    def client(self, **options):
        """Return a client that gives up at the first failure, unless asked otherwise."""
        kind = AioServiceBusClient if self._kind == "aio" else ServiceBusClient
        options = {"retry_total": 0} | options
        made = kind.from_connection_string(self._connection_string, **options)
        self._clients.append(made)
        return made

    async def _opened(self, handler):
        opened = Awaited(handler)
        self._handlers.append(handler)
        await getattr(opened, "__aenter__" if self._kind == "aio" else "__enter__")()
        return opened

    async def sender(self, queue, **options):
        """Open a sender to a queue, or to a topic where the name is one."""
        client = self.client(**options)
        make = client.get_topic_sender if queue.startswith("topic-") else client.get_queue_sender
        return await self._opened(make(queue))

    async def receiver(self, queue, *, retry_total=0, **options):
        """Open a receiver from a queue or, by "topic/subscription", from a subscription."""
        client = self.client(retry_total=retry_total)
        if "/" in queue:
            return await self._opened(client.get_subscription_receiver(*queue.split("/"), **options))
        return await self._opened(client.get_queue_receiver(queue, **options))

    async def close_one(self, opened):
        """Close a receiver or a sender and wait for it."""
        await opened.close()
        self._handlers.remove(opened.inner)

    async def close(self):
        """Close everything."""
        if self._kind == "aio":
            await asyncio.gather(*(handler.close() for handler in self._handlers), return_exceptions=True)
            await asyncio.gather(*(client.close() for client in self._clients))
        else:
            self._closing.submit(_close_all, [*self._handlers, *self._clients])


def _close_all(things):
    for thing in things:
        # A handler whose connection a test has broken may fail to say goodbye.
        with contextlib.suppress(Exception):
            thing.close()


async def take(receiver, count, wait=5):
    """Receive until there are `count` messages, or nothing comes for `wait` seconds."""
    found = []
    while len(found) < count:
        more = await receiver.receive_messages(max_message_count=count - len(found), max_wait_time=wait)
        if not more:
            break
        found += more
    return found


async def bodies(receiver, count, wait=5):
    """Receive and complete messages and return their texts."""
    messages = await take(receiver, count, wait)
    for message in messages:
        await receiver.complete_message(message)
    return [str(message) for message in messages]


async def left_in(receiver):
    """Return the texts of all messages of the receiver's entity, taken or not."""
    # Without a number, the client looks only behind what it has received.
    return [str(message) for message in await receiver.peek_messages(max_message_count=100, sequence_number=1)]


async def until(condition, seconds=10):
    """Poll an async condition until it holds; its last value."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (value := await condition()) and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(0.05)
    return value
