"""Dispatch of batches without sessions: one loop, strictly one invocation at a time, no lock renewal."""

import asyncio
from datetime import timedelta

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

from functions_local_host.bus_reconnect import keep_serving
from functions_local_host.bus_run import BusRun


class BatchDispatch:
    """Runs the function for the messages of one receive, or for a batch filled up to minMessageBatchSize."""

    def __init__(self, run: BusRun) -> None:
        self._run = run

    async def serve(self, client: ServiceBusClient) -> None:
        """Receive and run until stopped."""
        await keep_serving(self._run, lambda: self._serve_once(client))

    async def _serve_once(self, client: ServiceBusClient) -> None:
        async with self._run.trigger.source.receiver(client) as receiver:
            while not self._run.stopping.is_set():
                batch = await fill(self._run, receiver, self._run.options.try_timeout)
                if batch:
                    await self._run.batch(receiver, batch)


async def fill(run: BusRun, receiver: ServiceBusReceiver, longest: timedelta) -> list[ServiceBusReceivedMessage]:
    """Return a batch whose first message came within `longest`. A filled one may wait maxBatchWaitTime more."""
    options = run.options
    batch = await run.receive(receiver, options.max_message_batch_size, longest)
    loop = asyncio.get_running_loop()
    end = loop.time() + options.max_batch_wait_time.total_seconds()
    while batch and not run.stopping.is_set() and (left := end - loop.time()) > 0:
        if len(batch) >= options.min_message_batch_size:
            break
        batch += await run.receive(receiver, options.max_message_batch_size - len(batch), timedelta(seconds=left))
    return batch
