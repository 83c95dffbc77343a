"""Writes output bindings after a function has returned: to storage queues, and to queues and topics of the bus."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from azure.core.exceptions import AzureError
from azure.functions.meta import Datum
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender
from azure.servicebus.exceptions import ServiceBusError

from local.host.contract import Binding, IndexedFunction
from local.host.host_storage import HostStorage
from local.host.message_encoding import encoded
from local.host.output_values import OutputError, messages_of
from local.host.queue_sender import send_creating
from local.host.queue_watcher import WATCHER

#: What the host says of a body, by the kind of value it came from.
_TEXT, _BYTES = "text/plain", "application/octet-stream"


class Outputs:
    """The output bindings of one host instance. All of its coroutines belong on one event loop.

    `storage` and `bus` give the account and the connection string that a binding's `connection` names.
    """

    def __init__(self, storage: Callable[[str], HostStorage], bus: Callable[[str], str], queue_encoding: str) -> None:
        self._storage, self._bus, self._encoding = storage, bus, queue_encoding
        self._senders: dict[tuple[str, str], ServiceBusSender] = {}
        self._open = AsyncExitStack()

    async def write(self, function: IndexedFunction, values: Mapping[str, Datum]) -> None:
        """Write the values by binding name, in binding order. Raises OutputError; earlier ones stay written."""
        for binding in function.outputs:
            value = values.get(binding.name)
            if value is not None and value.value is not None:
                await self._write(function.name, binding, value)

    async def close(self) -> None:
        """Close the bus connections; the storage clients are their owner's to close."""
        self._senders.clear()
        await self._open.aclose()

    async def _write(self, function: str, binding: Binding, value: Datum) -> None:
        try:
            if binding.type == "queue":
                await self._to_queue(binding, messages_of(value))
            elif binding.type == "serviceBus":
                await self._to_bus(binding, messages_of(value))
            else:
                raise OutputError(f"this host writes to 'queue' and 'serviceBus', not to {binding.type!r}")
        except (OutputError, AzureError, ServiceBusError, UnicodeDecodeError) as error:
            raise OutputError(f"output {binding.name!r} of function {function!r} was not written: {error}") from error

    async def _to_queue(self, binding: Binding, bodies: list[str | bytes]) -> None:
        name = str(binding.settings["queueName"])
        queue = self._storage(_connection(binding)).queue(name, f"output {name}")
        for body in bodies:
            await send_creating(queue, encoded(body, self._encoding))
            WATCHER.notify(name)

    async def _to_bus(self, binding: Binding, bodies: list[str | bytes]) -> None:
        sender = await self._sender(binding)
        for body in bodies:
            await sender.send_messages(ServiceBusMessage(body, content_type=_TEXT if isinstance(body, str) else _BYTES))

    async def _sender(self, binding: Binding) -> ServiceBusSender:
        queue, topic = binding.settings.get("queueName"), binding.settings.get("topicName")
        key = (_connection(binding), str(queue or topic))
        if key not in self._senders:
            client = ServiceBusClient.from_connection_string(self._bus(key[0]))
            sender = client.get_queue_sender(queue) if queue else client.get_topic_sender(str(topic))
            self._senders[key] = sender
            self._open.push_async_callback(client.close)
        return self._senders[key]


def _connection(binding: Binding) -> str:
    return str(binding.settings.get("connection") or "")
