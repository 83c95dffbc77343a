"""Sends and runs tasks with taskiq: `with_taskiq.py CONNECTION QUEUE TASKS`. Prints what ran."""

import asyncio
import json
import sys

from taskiq.api import run_receiver_task
from taskiq_service_bus import ServiceBusBroker

#: It opens a connection for each task, which takes a second by the pauses of Azure's library.
TOGETHER = 50


async def main(connection, queue, tasks):
    """Send a task for each number, and run a worker until all have run."""
    broker, ran, is_done = ServiceBusBroker(connection, queue), [], asyncio.Event()

    @broker.task
    async def note(number: int) -> None:
        ran.append(number)
        if len(ran) == tasks:
            is_done.set()

    broker.is_worker_process = True
    await broker.startup()
    for first in range(0, tasks, TOGETHER):
        await asyncio.gather(*(note.kiq(number) for number in range(first, min(first + TOGETHER, tasks))))
    worker = asyncio.create_task(run_receiver_task(broker))
    await is_done.wait()
    worker.cancel()
    await broker.shutdown()
    sys.stdout.write(json.dumps({"taken": ran}) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
