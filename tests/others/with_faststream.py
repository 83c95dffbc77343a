"""Publishes and takes messages with FastStream: `with_faststream.py CONNECTION QUEUE MESSAGES`. Prints what arrived."""

import asyncio
import json
import sys

from faststream_azure_servicebus import ServiceBusBroker


async def main(connection, queue, messages):
    """Subscribe, publish each number, and stop when all have come."""
    broker, taken, is_done = ServiceBusBroker(connection), [], asyncio.Event()

    @broker.subscriber(queue=queue)
    async def take(body: dict) -> None:
        taken.append(body["number"])
        if len(taken) == messages:
            is_done.set()

    await broker.start()
    try:
        for number in range(messages):
            await broker.publish({"number": number}, queue=queue)
        await is_done.wait()
    finally:
        await broker.stop()
    sys.stdout.write(json.dumps({"taken": taken}) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
