"""The listener of one Service Bus trigger: picks the form of dispatch of its binding."""

from typing import Protocol

from azure.servicebus.aio import ServiceBusClient

from functions_local_host.bus_batches import BatchDispatch
from functions_local_host.bus_messages import MessageDispatch
from functions_local_host.bus_run import BusRun
from functions_local_host.bus_sessions import SessionDispatch
from functions_local_host.bus_source import BusTrigger
from functions_local_host.contract import IndexedFunction, Invoke
from functions_local_host.host_json import BusOptions


class Dispatch(Protocol):
    """One way to hand messages to a function."""

    async def serve(self, client: ServiceBusClient) -> None:
        """Serve until stopped, through every loss of a connection."""
        ...


class BusListener:
    """Runs one function for the messages of one queue or subscription."""

    def __init__(self, function: IndexedFunction, options: BusOptions, connection: str, invoke: Invoke) -> None:
        trigger = BusTrigger.of(function.trigger, completes=options.auto_complete_messages)
        self._run = BusRun(function, trigger, options, invoke)
        self._connection = connection

    async def run(self) -> None:
        """Serve until stopped. A lost connection or a restarted broker only makes it connect anew."""
        # A session is gone with its connection, so that the SDK's retries on it only lose time.
        retries = 0 if self._run.trigger.has_sessions else 3
        async with ServiceBusClient.from_connection_string(self._connection, retry_total=retries) as client:
            await self._dispatch().serve(client)

    def stop(self) -> None:
        """Receive nothing new. Messages that run may end."""
        self._run.stopping.set()

    def _dispatch(self) -> Dispatch:
        if self._run.trigger.has_sessions:
            return SessionDispatch(self._run)
        return BatchDispatch(self._run) if self._run.trigger.is_batch else MessageDispatch(self._run)
