"""Works on the whole hostile crowd in one process, 24 messages at a time as host.json has it, and says what memory it took.

python -m tests.process.crowded CONNECTION_STRING, with the names of the jobs as a list on the standard input
"""

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from azure.storage.blob import BlobServiceClient
from azure.storage.queue import QueueServiceClient

from shared.app import App
from shared.azure.connection_settings import BUS_CONNECTION, STORAGE_CONNECTION
from shared.errors import SettleIncompleteError
from shared.ledger.records import FINISHED, JobState
from shared.messages import Delivery
from shared.pipeline.settle import Received
from shared.settings import Settings
from shared.topology import topology
from shared.workloads.billing import Billing
from shared.workloads.registry import Workloads
from tests import memory
from tests.faults.bus import Bus, BusConnections
from tests.faults.journal import Journal
from tests.faults.plan import Plan
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT
from tools.local.provision import provision

SETTINGS = Settings.parse(
    {
        STORAGE_CONNECTION: "this run's",
        BUS_CONNECTION: "this run's",
        "SLUICE_TICK_SCHEDULE": "by hand",
    }
)
ENDED = {*FINISHED, JobState.PAUSED, JobState.HELD}
PATIENCE = 600
QUEUES = json.loads((ROOT / "host.json").read_text())["extensions"]["queues"]
#: Messages of one queue that a host runs at a time.
AT_ONCE = QUEUES["batchSize"] + QUEUES["newBatchThreshold"]


class Instance:
    """One process of the app: its handlers, and a thread for each message that it works on at a time."""

    def __init__(self, connections, bus):
        self._app, self._bus = App(connections, SETTINGS, Workloads([Billing()])), bus
        self._handlers = {"submissions": self._app.accept, "work-00": self._app.process}
        self._queues, self._ledger = connections.queues, self._app.stores.ledger
        self.done, self.failures = threading.Event(), []

    def work(self):
        """Work on messages until it is done."""
        while not self.done.is_set():
            if not sum(self._deliver(name) for name in self._handlers):
                # As often as a host polls an idle queue: 24 threads that ask all the time leave no CPU to the work.
                self.done.wait(2)

    def settle(self, jobs):
        """Settle what was told, and return the state of every job."""
        letters = self._bus.waiting("results")
        if letters:
            # On a slow machine a batch is not settled in time. The host has it delivered again, and so does this.
            with suppress(SettleIncompleteError):
                self._app.settle([Received(one.body.encode(), one.id) for one in letters])
                self._bus.complete(letters)
        rows = {name: self._ledger.read(name) for name in jobs}
        return {name: None if row is None else row.state for name, row in rows.items()}

    def _deliver(self, name):
        queue = self._queues.get_queue_client(name)
        for message in queue.receive_messages(max_messages=1, visibility_timeout=PATIENCE):
            body, count = message.content.encode(), message.dequeue_count
            try:
                self._handlers[name](Delivery(queue=name, message_id=message.id, body=body, count=count))
                queue.delete_message(message)
            except Exception as error:  # noqa: BLE001 - as the host does: the message is delivered again
                self.failures.append(f"{type(error).__name__}: {error}"[:300])
                queue.update_message(message, visibility_timeout=1)
            return True
        return False


def main():
    """Print one JSON document: the states of the jobs, what failed on the way, and the most memory."""
    bus, jobs, states = Bus(Journal()), json.loads(sys.stdin.read()), {}
    with BusConnections(sys.argv[1], bus, Plan(), transport=None) as connections, ThreadPoolExecutor(AT_ONCE) as pool:
        instance, before = Instance(connections, bus), memory.peak()
        for _ in range(AT_ONCE):
            pool.submit(instance.work)
        until = time.monotonic() + PATIENCE
        try:
            while time.monotonic() < until and not (states and set(states.values()) <= ENDED):
                states = instance.settle(jobs)
                time.sleep(1)
        finally:
            # The pool waits for its threads, also after an error here.
            instance.done.set()
    found = {"before": before, "peak": memory.peak(), "states": states, "failures": instance.failures}
    sys.stdout.write(json.dumps(found))


def apart(sent):
    """Return what becomes of the submissions in a process of their own, on storage of their own."""
    with Azurite.start() as own:
        provision(own.connection_string, topology())
        with BlobServiceClient.from_connection_string(own.connection_string) as blobs:
            for one in sent:
                for name, content in one.blobs.items():
                    blobs.get_blob_client("payloads", name).upload_blob(content)
        with QueueServiceClient.from_connection_string(own.connection_string) as queues:
            for one in sent:
                queues.get_queue_client("submissions").send_message(one.message.decode())
        done = subprocess.run(
            [sys.executable, "-m", "tests.process.crowded", own.connection_string],
            input=json.dumps([one.job for one in sent]),
            # As the app is deployed.
            env={**os.environ, "MALLOC_ARENA_MAX": "2"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise AssertionError(done.stderr[-3000:])
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
