"""Writes output bindings after a function has returned: to storage queues, and to queues and topics of the bus."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack

from azure.core.exceptions import AzureError
from azure.functions.meta import Datum
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender

from functions_local_host.contract import Binding, Connect, ConnectionMissingError, IndexedFunction
from functions_local_host.host_storage import HostStorage
from functions_local_host.message_encoding import encoded
from functions_local_host.meter import Meter
from functions_local_host.output_values import OutputError, messages_of
from functions_local_host.queue_sender import send_creating
from functions_local_host.queue_watcher import WATCHER

#: What the host says of a body, by the kind of value it came from.
_TEXT, _BYTES = "text/plain", "application/octet-stream"


class Outputs:
    """The `WriteOutputs` of one host instance. All of its coroutines belong on one event loop."""

    def __init__(self, connect: Connect, meter: Meter, queue_encoding: str) -> None:
        self._connect, self._meter, self._encoding = connect, meter, queue_encoding
        self._storages: dict[str, HostStorage] = {}
        self._senders: dict[tuple[str, str], tuple[ServiceBusSender, asyncio.Lock]] = {}
        self._open = AsyncExitStack()

    async def __call__(self, function: IndexedFunction, values: Mapping[str, Datum]) -> None:
        """Write the values by binding name, in binding order. Raises OutputError. Earlier ones stay written."""
        for binding in function.outputs:
            value = values.get(binding.name)
            # An HTTP response goes back to the caller, not through here.
            if value is not None and value.value is not None and binding.type != "http":
                await self._write(function.name, binding, value)

    async def close(self) -> None:
        """Close every connection. A later write opens new ones."""
        # The SDK's client knows its senders by weak references only: forgotten first, they would never be closed.
        await self._open.aclose()
        self._senders.clear()
        self._storages.clear()

    async def _write(self, function: str, binding: Binding, value: Datum) -> None:
        write = {"queue": self._to_queue, "serviceBus": self._to_bus}.get(binding.type)
        if write is None:
            raise OutputError(f"output {binding.name!r} of function {function!r} is of unknown type {binding.type!r}")
        try:
            await write(binding, messages_of(value))
        except (OutputError, ConnectionMissingError, AzureError, UnicodeDecodeError) as error:
            raise OutputError(f"output {binding.name!r} of function {function!r} was not written: {error}") from error

    async def _to_queue(self, binding: Binding, bodies: list[str | bytes]) -> None:
        name = str(binding.settings["queueName"])
        queue = self._storage(_connection(binding)).queue(name, f"output {name}")
        for body in bodies:
            await send_creating(queue, encoded(body, self._encoding))
            WATCHER.notify(name)

    async def _to_bus(self, binding: Binding, bodies: list[str | bytes]) -> None:
        sender, turn = self._sender(binding)
        for body in bodies:
            # Two sends at once on one sender of the SDK open its link twice, and both fail.
            async with turn:
                await sender.send_messages(
                    ServiceBusMessage(body, content_type=_TEXT if isinstance(body, str) else _BYTES)
                )

    def _storage(self, connection: str) -> HostStorage:
        if connection not in self._storages:
            storage = HostStorage(self._connect(connection), self._meter)
            self._storages[connection] = storage
            self._open.push_async_callback(storage.close)
        return self._storages[connection]

    def _sender(self, binding: Binding) -> tuple[ServiceBusSender, asyncio.Lock]:
        queue, topic = binding.settings.get("queueName"), binding.settings.get("topicName")
        key = (_connection(binding), str(queue or topic))
        if key not in self._senders:
            client = ServiceBusClient.from_connection_string(self._connect(key[0]))
            sender = client.get_queue_sender(queue) if queue else client.get_topic_sender(str(topic))
            self._senders[key] = sender, asyncio.Lock()
            self._open.push_async_callback(client.close)
        return self._senders[key]


def _connection(binding: Binding) -> str:
    return str(binding.settings.get("connection") or "")
