"""Who does things from outside: a publisher with two signatures, an operator with the `sluice` command, and the app.

A signature is for one queue (add) or one container (what the role of a publisher allows there); Azurite enforces both by
operation, as Azure enforces the roles. Nobody here uses a client of the project.
"""

import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from azure.storage.blob import ContainerClient, generate_container_sas
from azure.storage.queue import QueueClient, generate_queue_sas
from typer.testing import CliRunner

from tests.outside import checker
from tests.waiting import LIMIT
from tools.cli.main import app
from tools.local import stack

#: The role Storage Queue Data Message Sender, and Storage Blob Data Contributor, on one queue and one container.
MAY_SEND, MAY_WRITE = "a", "racwdl"


class Publisher:
    """Holds a signature for its queue and one for its container, and nothing else."""

    def __init__(self, azurite, queue="submissions", container="payloads"):
        account = {"account_name": azurite.account.name, "account_key": azurite.account.key}
        until = {"expiry": datetime.now(UTC) + timedelta(hours=1)}
        self._queue_signature = generate_queue_sas(queue_name=queue, permission=MAY_SEND, **until, **account)
        self._signature = generate_container_sas(container_name=container, permission=MAY_WRITE, **until, **account)
        self.endpoints = azurite.endpoints
        self.queue, self.payloads = self.queue_named(queue), self.container_named(container)

    @property
    def signatures(self):
        """All that this publisher has."""
        return self._queue_signature, self._signature

    def queue_named(self, name):
        """Return a queue as this publisher reaches it."""
        return QueueClient(self.endpoints["queue"], name, credential=self._queue_signature, retry_total=0)

    def container_named(self, name):
        """Return a container as this publisher reaches it."""
        return ContainerClient(self.endpoints["blob"], name, credential=self._signature, retry_total=0)

    def send(self, message):
        """Drop a message and return its id."""
        text = message if isinstance(message, str) else json.dumps(message)
        return self.queue.send_message(text, time_to_live=-1).id

    def put(self, name, content):
        """Write a payload."""
        self.payloads.upload_blob(name, content)


class Operator:
    """Types the `sluice` command, and reads outputs with an operator's rights."""

    def __init__(self, settings):
        self.storage = settings["SluiceStorage"]
        # A wide terminal: a table cuts nothing off.
        self._settings = {**settings, "COLUMNS": "240"}

    def types(self, *words, status=0, said="y\n" * 5):
        """Type a command and return what it prints; its exit status must be this one, or any if that is None."""
        done = CliRunner().invoke(app, list(map(str, words)), input=said, env=self._settings)
        assert status in (done.exit_code, None), f"sluice {' '.join(map(str, words))}: {done.exit_code}\n{done.output}"
        return done.stdout

    def asks(self, *words, status=0):
        """Type a command and return its JSON."""
        return json.loads(self.types(*words, "--json", status=status, said=""))

    def ends(self, job):
        """Return a job when it has ended."""
        return json.loads(
            CliRunner()
            .invoke(app, ["jobs", "watch", job, "--timeout", str(LIMIT), "--json"], env=self._settings)
            .stdout
        )

    def rejected(self, job):
        """Return the reason of each rejected transaction of a job, by its number."""
        found = {}
        with ContainerClient.from_connection_string(self.storage, "outputs") as outputs:
            for name in outputs.list_blob_names(name_starts_with=f"{job}/1/rejected-"):
                lines = checker.lines_of(outputs.download_blob(name, decompress=False).readall())
                found |= {line["number"]: line["reason"] for line in map(json.loads, lines)}
        return found


class People:
    """Everybody, and the app that runs."""

    def __init__(self, running_stack):
        self.stack, self.publisher = running_stack, Publisher(running_stack.azurite)
        self.operator = Operator(running_stack.settings)

    def peak_mib(self):
        """Return the most memory that a process of the app ever had, in MiB."""
        status = [Path(f"/proc/{pid}/status").read_text() for pid in self.stack.host.instance_pids().values()]
        peaks = [line.split()[1] for text in status for line in text.splitlines() if line.startswith("VmHWM:")]
        return max(map(int, peaks)) // 1024


@contextmanager
def running(**settings):
    """Start the stack with the deployed host.json and yield the people around it."""
    with stack.running(stack.StackOptions(instances=1, settings=settings)) as started:
        host = {name for name in started.settings if name.startswith("AzureFunctionsJobHost__")}
        assert not host, f"the host runs as host.json says, and not by {host}"
        yield People(started)
