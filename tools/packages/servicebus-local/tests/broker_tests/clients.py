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


def both_clients(test):
    """Run a test for the sync and the aio client at the same time, each on entities of its own.

    The test takes `bus` or `brisk`, its clients; which of the two names decides on the broker. Side by side, because
    nearly all of a test's time is the client's own waiting while it opens links.
    """
    name = "bus" if "bus" in inspect.signature(test).parameters else "brisk"
    running = {"bus": "broker", "brisk": "brisk_broker"}[name]

    async def run(closing, **fixtures):
        broker = fixtures[running] if running in inspect.signature(test).parameters else fixtures.pop(running)
        both = [Clients(broker.connection_string, kind) for kind in ("sync", "aio")]
        await asyncio.gather(*(_run_one(test, clients, closing, fixtures | {name: clients}) for clients in both))

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    wanted = [each for each in inspect.signature(test).parameters if each not in {name, running}]
    run.__signature__ = inspect.Signature(
        [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY) for each in ("closing", running, *wanted)]
    )
    run.pytestmark = getattr(test, "pytestmark", [])
    return run


async def _run_one(test, clients, closing, fixtures):
    try:
        await test(**fixtures)
    except BaseException as error:
        error.add_note(f"with the {clients.kind} client")
        raise
    finally:
        closing.append(asyncio.create_task(clients.close()))


class Clients:
    """Opens senders and receivers of one kind of client, and closes them at the end."""

    def __init__(self, connection_string, kind):
        self._connection_string = connection_string
        self.kind = kind
        self._clients = []
        self._handlers = []

    def client(self, **options):
        """Return a client that gives up at the first failure, unless asked otherwise."""
        kind = AioServiceBusClient if self.kind == "aio" else ServiceBusClient
        options = {"retry_total": 0} | options
        made = kind.from_connection_string(self._connection_string, **options)
        self._clients.append(made)
        return made

    async def _opened(self, handler):
        opened = Awaited(handler)
        self._handlers.append(handler)
        await getattr(opened, "__aenter__" if self.kind == "aio" else "__enter__")()
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
        await asyncio.gather(*(_closed(handler) for handler in self._handlers))
        await asyncio.gather(*(_closed(client) for client in self._clients))


async def _closed(thing):
    # A handler whose connection a test has broken may fail to say goodbye.
    with contextlib.suppress(Exception):
        await Awaited(thing).close()


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


async def until(condition, seconds=600):
    """Poll an async condition until it holds; its last value."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (value := await condition()) and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - what is awaited happens in another process
        await asyncio.sleep(0.05)
    return value
