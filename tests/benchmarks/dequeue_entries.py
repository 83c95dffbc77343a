"""A burst of one-transaction chunks through the app's real entry points: triggers, push, and worker processes.

What is in work is not what the app says of itself: the workload writes down when each transaction began and ended, and
the lines are counted afterwards.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from shared.app import Stores
from shared.azure import Connections
from shared.ledger.records import FINISHED
from shared.publish import Publisher
from tools.local.stack import Stack, StackOptions, running

#: The command, as it is installed.
SLUICE: Final = str(Path(sys.executable).parent / "sluice")
TWO = "version: 1\nrules:\n- {name: two, tasks: 2}\n"
ENTRIES = TRIGGER, PUSH, WORKER = "trigger", "push", "worker"
INSTANCES = 2
#: The host takes no work while workers do, and does everything else.
WITHOUT_DRAIN = {"AzureWebJobs.drain_work.Disabled": "true"}


@dataclass(frozen=True)
class Burst:
    """What became of one burst."""

    done: int
    #: The most that were in work at a time, over all processes.
    peak: int
    #: Slots that some process held before and after: by push no task is idle.
    held_before: int
    held_after: int
    seconds: float


def burst(
    way: str, messages: int, *, rules: str | None = None, work: float = 0.02, queues: int = 1, patience: float = 300.0
) -> Burst:
    """Put so many chunks at once, and wait until their job is complete."""
    with (
        tempfile.TemporaryDirectory() as folder,
        _app(way, Path(folder) / "stamps", work, queues) as (stack, connections),
    ):
        stores = Stores(connections)
        if rules is not None:
            stores.rules.put(rules)
        before, began = len(stores.slots.list_held()), time.monotonic()
        queue, payloads = (
            connections.queues.get_queue_client("submissions"),
            connections.blobs.get_container_client("payloads"),
        )
        with Workers(stack.settings, INSTANCES if way == WORKER else 0):
            Publisher(queue, payloads).submit(
                job="burst", workload="timed", transactions=({"number": number} for number in range(messages))
            )
            _until(lambda: _is_finished(stores), patience)
            seconds = time.monotonic() - began
            # Slots are released after the last message; a trigger keeps them for a while.
            _until(lambda: not stores.slots.list_held(), 30.0)
        spans = (Path(folder) / "stamps").read_text().splitlines()
        done = {line.split()[1] for line in spans if line.startswith("end")}
        return Burst(len(done), most_at_once(spans), before, len(stores.slots.list_held()), seconds)


def most_at_once(lines: list[str]) -> int:
    """Return the most transactions that were in work at a time, from lines such as `begin 7 1763800000.1`."""
    now, most = 0, 0
    # An end at the moment of a begin came first: a line is written before or after the work, never in it.
    for _, step in sorted((float(line.split()[2]), 1 if line.startswith("begin") else -1) for line in lines):
        now += step
        most = max(most, now)
    return most


class Workers:
    """Processes of `sluice worker`, which end at SIGTERM when this is left."""

    def __init__(self, settings: Mapping[str, str], number: int) -> None:
        self._environ, self._number = {**os.environ, **settings}, number
        self.processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        """Start them."""
        self.processes = [
            subprocess.Popen([SLUICE, "worker"], env=self._environ, stderr=subprocess.PIPE, text=True)
            for _ in range(self._number)
        ]
        for process in self.processes:
            assert process.stderr is not None
            said = ""
            while "follows up to" not in (line := process.stderr.readline()):
                said += line
                if not line:
                    raise RuntimeError(
                        f"a worker ended with status {process.wait()} before it followed: {said[-2000:]}"
                    )
        return self

    def __exit__(self, *_: object) -> None:
        """End them, as a service manager does, and check that they ended well."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            _, said = process.communicate(timeout=60)
            if process.returncode:
                raise RuntimeError(f"a worker ended with status {process.returncode}: {said[-500:]}")


@contextmanager
def _app(way: str, stamps: Path, work: float, queues: int) -> Iterator[tuple[Stack, Connections]]:
    stamps.touch()
    settings = {
        "SLUICE_DEQUEUE": TRIGGER if way == TRIGGER else PUSH,
        "SLUICE_CHUNK_ITEMS": "1",
        "SLUICE_WORK_QUEUES": str(queues),
        "SLUICE_WORKLOADS": "tests.benchmarks.dequeue_workload:Timed",
        "DEQUEUE_STAMPS": str(stamps),
        "DEQUEUE_WORK": str(work),
        **(WITHOUT_DRAIN if way == WORKER else {}),
    }
    with (
        running(StackOptions(instances=INSTANCES, settings=settings)) as stack,
        Connections.parse(stack.settings) as connections,
    ):
        yield stack, connections


def _is_finished(stores: Stores) -> bool:
    job = stores.ledger.read("burst")
    return job is not None and job.state in FINISHED


def _until(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.2)
