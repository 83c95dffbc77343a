"""A process with two consumers: receives and completes until the queue stays empty, then prints what it took."""

import asyncio
import sys

from azure.servicebus.aio import ServiceBusClient

#: Longer than any pause of the sender; a consumer that has seen nothing for so long is done.
_QUIET = 4


async def _consume(client, queue):
    taken = []
    async with client.get_queue_receiver(queue, prefetch_count=200) as receiver:
        while messages := await receiver.receive_messages(max_message_count=200, max_wait_time=_QUIET):
            for message in messages:
                await receiver.complete_message(message)
                taken.append(message.message_id)
    return taken


async def _main(connection_string, queue):
    clients = [ServiceBusClient.from_connection_string(connection_string) for _ in range(2)]
    taken = await asyncio.gather(*(_consume(client, queue) for client in clients))
    for client in clients:
        await client.close()
    sys.stdout.writelines(" ".join(ids) + "\n" for ids in taken)


asyncio.run(_main(*sys.argv[1:]))
