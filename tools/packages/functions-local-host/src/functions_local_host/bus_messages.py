"""Single dispatch without sessions: messages of one receiver run beside each other, each under its own lock."""

import asyncio

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

from functions_local_host.bus_lock import message_lock, renewed
from functions_local_host.bus_reconnect import keep_serving
from functions_local_host.bus_run import RECEIVE_SLICE, BusRun


class MessageDispatch:
    """Takes one message for each free slot of maxConcurrentCalls."""

    def __init__(self, run: BusRun) -> None:
        self._run = run
        self._slots = asyncio.Semaphore(run.options.max_concurrent_calls)
        self._running: set[asyncio.Task[None]] = set()

    async def serve(self, client: ServiceBusClient) -> None:
        """Receive until stopped."""
        await keep_serving(self._run, lambda: self._serve_once(client))

    async def _serve_once(self, client: ServiceBusClient) -> None:
        options = {"prefetch_count": self._run.options.prefetch_count}
        async with self._run.trigger.source.receiver(client, **options) as receiver:
            try:
                while not self._run.stopping.is_set():
                    await self._take_one(receiver)
            finally:
                # Running messages are settled before the receiver closes, after any end of the loop.
                await asyncio.gather(*self._running)

    async def _take_one(self, receiver: ServiceBusReceiver) -> None:
        await self._slots.acquire()
        messages: list[ServiceBusReceivedMessage] = []
        try:
            messages = await self._run.receive(receiver, 1, RECEIVE_SLICE)
        finally:
            if not messages:
                self._slots.release()
        for message in messages:
            task = asyncio.create_task(self._process(receiver, message))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._slots.release()

    async def _process(self, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage) -> None:
        async with renewed(message_lock(receiver, message), self._run.options.max_auto_lock_renewal_duration):
            await self._run.one(receiver, message)
