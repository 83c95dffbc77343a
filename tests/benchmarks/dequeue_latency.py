"""How long a message lies on an idle app's queue: from its put to the begin of its work."""

import base64
import hashlib
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from shared.app import Stores
from shared.app.stages import Tasks
from shared.azure.connections import Connections
from shared.dequeue.listener import QueueListener
from shared.dequeue.task import BackOff, Listening, pull
from shared.messages import ChunkMessage, Delivery, encode
from shared.payload.frames import Codec, compress
from shared.settings import Settings
from shared.topology import topology
from tools.local.azurite.launcher import Azurite
from tools.local.provision import provision
from tools.local.stack import StackOptions, running

#: Messages by push and by a worker's polling; queues that the host's triggers poll, each for one message.
MESSAGES, QUEUES = 100, 32
#: Seconds after which the host polls an idle queue once a minute: its rests double from a tenth of a second.
UNTIL_IDLE = 130.0
#: What the host does by trigger.
HOST_LONGEST = 60.0
#: As infra/ sets it. In Development the host would make two seconds of exactly one minute.
BY_TRIGGER = {
    "SLUICE_DEQUEUE": "trigger",
    "AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:01:00",
    "AZURE_FUNCTIONS_ENVIRONMENT": "Staging",
}


def by_push() -> list[float]:
    """Measure an app that is woken by a signal, under the local host."""
    with _app({"SLUICE_DEQUEUE": "push"}) as (connections, settings, stamps):
        tasks = Tasks(Stores(connections), Settings.parse(settings))
        return _one_by_one(connections, stamps, tasks.waking)


def by_trigger() -> list[float]:
    """Measure the host's queue triggers at their default interval: all queues at once, each idle before."""
    with _app({**BY_TRIGGER, "SLUICE_WORK_QUEUES": str(QUEUES)}) as (connections, _, stamps):
        time.sleep(UNTIL_IDLE)
        dice, put = random.Random(5), {}
        plan = sorted((dice.uniform(0, HOST_LONGEST), number) for number in range(QUEUES))
        began, send = time.time(), Stores(connections).put
        for at, number in plan:
            time.sleep(max(0.0, began + at - time.time()))
            put[number] = time.time()
            send(f"work-{number:02}", _chunk(number))
        return _waited(put, stamps, HOST_LONGEST + 30)


def by_polling(interval: float = 1.0) -> list[float]:
    """Measure a worker process whose one task asks once a second."""
    began: dict[int, float] = {}
    put: dict[int, float] = {}
    seen = threading.Event()

    def handle(delivery: Delivery) -> None:
        began[int(delivery.body)] = time.time()
        seen.set()

    rest = pull(BackOff(shortest=interval, longest=interval))
    listening = Listening(rule=lambda _depth: 1, on_queue_empty=rest)
    dice = random.Random(6)
    with Azurite.start() as azurite:
        provision(azurite.connection_string, topology())
        with Connections(azurite.connection_string) as connections:
            send = Stores(connections).put
            with QueueListener(Stores(connections).work_queues(1), handle, listening) as listener:
                listener.start(1)
                for number in range(MESSAGES):
                    time.sleep(dice.uniform(0.1, 1.1) * interval)
                    put[number] = time.time()
                    send("work-00", str(number))
                    seen.wait()
                    seen.clear()
    return [began[number] - at for number, at in put.items()]


@contextmanager
def _app(changed: Mapping[str, str]) -> Iterator[tuple[Connections, dict[str, str], Path]]:
    """Run the app under the local host with the workload that writes its beginnings down."""
    with tempfile.TemporaryDirectory() as folder:
        stamps = Path(folder) / "stamps"
        own = {"SLUICE_WORKLOADS": "tests.benchmarks.dequeue_workload:Stamp", "DEQUEUE_STAMPS": str(stamps)}
        options = StackOptions(instances=1, settings={**own, **changed})
        with running(options) as stack, Connections.parse(stack.settings) as connections:
            yield connections, stack.settings, stamps


def _one_by_one(
    connections: Connections, stamps: Path, waking: Callable[[int, int], AbstractContextManager[None]]
) -> list[float]:
    dice, put, send = random.Random(7), {}, Stores(connections).put
    for number in range(-1, MESSAGES):
        time.sleep(dice.uniform(0.1, 0.5))
        put[number] = time.time()
        with waking(1, 1):
            send("work-00", _chunk(max(number, 0)))
        if number < 0:
            # The first one opens connections; it is not counted.
            del put[number]
            time.sleep(2)
            stamps.unlink()
        else:
            _waited({number: put[number]}, stamps, 30)
    return _waited(put, stamps, 5)


def _waited(put: Mapping[int, float], stamps: Path, deadline: float) -> list[float]:
    end = time.monotonic() + deadline
    began: dict[int, float] = {}
    while not put.keys() <= began.keys():
        if time.monotonic() > end:
            raise TimeoutError(f"{len(put.keys() - began.keys())} of {len(put)} messages were not begun")
        time.sleep(0.01)
        lines = stamps.read_text().splitlines() if stamps.exists() else []
        began = {int(number): float(at) for number, at in map(str.split, reversed(lines))}
    return [began[number] - at for number, at in put.items()]


def _chunk(number: int) -> str:
    text = f'{{"number":{number}}}\n'.encode()
    frame = compress(text, Codec.ZSTD)
    return encode(
        ChunkMessage(
            job=f"idle-{number}",
            chunk=0,
            revision=1,
            workload="stamp",
            codec=Codec.ZSTD.value,
            frames=[(0, len(frame), 1, hashlib.sha256(frame).hexdigest())],
            first_id=1,
            inline=base64.b64encode(frame).decode(),
        )
    ).decode()
