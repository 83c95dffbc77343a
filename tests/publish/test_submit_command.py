"""`sluice submit`, as a person types it."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from azure.storage.blob import ContainerClient
from azure.storage.queue import QueueClient

from local.azurite.launcher import Azurite
from local.paths import ROOT
from local.provision import provision
from servicebus_local.launcher import Broker
from shared.app import Stores
from shared.azure.connections import Connections
from shared.topology import rooms, topology
from tests.publish.test_hints import hints_on

SLUICE = Path(sys.executable).parent / "sluice"
LINES = [json.dumps({"id": number, "amount": "0.25"}) for number in range(3000)]


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


@pytest.fixture
def usage(tmp_path):
    """A file of transactions."""
    file = tmp_path / "Usage 2026-11.ndjson.gz"
    file.write_bytes(gzip.compress("\n".join(LINES).encode(), mtime=0))
    return file


def sluice(storage, *arguments, cwd, **settings):
    """Run the command against the account."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [SLUICE, "submit", *map(str, arguments)],
        env={**kept, "PYTHONPATH": str(ROOT), "SluiceStorage": storage, **settings},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_file_becomes_a_job(storage, queue, usage, tmp_path):
    """One message is in the queue, and the command says what to type next."""
    done = sluice(storage, usage, "--sum", "amount", "--deadline", "2026-11-21T07:00+01:00", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (message,) = queue.peek_messages(32)
    said = json.loads(message.content)["sluice"]
    assert said["deadline"] == "2026-11-21T06:00:00Z"
    assert said["declared"] == {"items": 3000, "sums": {"amount": "750.00"}}
    assert said["job"].startswith("usage-2026-11-")
    assert "sent 3,000 transactions" in done.stdout
    assert done.stdout.splitlines()[-1] == f"watch it with: sluice jobs watch {said['job']}"


def test_a_hint_follows_where_there_is_a_bus(storage, queue, usage, tmp_path):
    """Unless it is turned off; a bus that is away is told, and the job is sent all the same."""
    with Broker.start() as bus:
        address = bus.connection_string
        hinted = sluice(storage, usage, "--json", cwd=tmp_path, SluiceBus=address)
        turned_off = sluice(storage, usage, "--json", "--no-hint", cwd=tmp_path, SluiceBus=address)
        assert len(hints_on(bus)) == 1
    away = sluice(storage, usage, "--json", cwd=tmp_path, SluiceBus=address)
    assert [json.loads(one.stdout)["hinted"] for one in (hinted, turned_off, away)] == [True, False, False]
    assert [one.stderr for one in (hinted, turned_off)] == ["", ""]
    assert (away.returncode, "finds the job at its next poll" in away.stderr) == (0, True)
    assert len(queue.peek_messages(32)) == 3


def test_the_same_file_is_the_same_job(storage, queue, usage, tmp_path):
    """Typed twice, it counts once; another content is another job."""
    jobs = [json.loads(sluice(storage, usage, "--json", cwd=tmp_path).stdout)["job"] for _ in range(2)]
    assert jobs[0] == jobs[1]
    usage.write_bytes(gzip.compress(b'{"id": 1}\n'))
    assert json.loads(sluice(storage, usage, "--json", cwd=tmp_path).stdout)["job"] != jobs[0]


def test_a_gate_never_heard_of_is_pointed_out(storage, queue, usage, tmp_path):
    """A misspelt gate would hold the job for ever: the command warns, and sends it all the same."""
    done = sluice(storage, usage, "--gate", "nigthly", "--job", "a", cwd=tmp_path)
    assert done.returncode == 0
    assert "gate 'nigthly' was never opened or closed" in done.stderr
    with Connections(storage) as connections:
        Stores(connections).gate_operator.open("nightly", by="test")
    known = sluice(storage, usage, "--gate", "nightly", "--job", "b", cwd=tmp_path)
    assert (known.returncode, known.stderr) == (0, "")
    assert [json.loads(one.content)["sluice"]["gate"] for one in queue.peek_messages(32)] == ["nigthly", "nightly"]


def test_an_unreadable_line_is_named_and_nothing_is_sent(storage, queue, tmp_path):
    """The line's number as an editor shows it, the reason, and what to do."""
    (tmp_path / "bad.ndjson").write_text("\n".join([*LINES[:1200], "", "{'id': 1}", *LINES]))
    done = sluice(storage, "bad.ndjson", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("sluice: not_json: line 1202: ")
    assert len(done.stderr.splitlines()) == 1
    assert queue.peek_messages() == []


@pytest.mark.parametrize(
    "call",
    [
        (("none.ndjson",), 2, "none.ndjson"),
        (("usage.ndjson", "--job", "Job"), 1, "bad_job"),
        (("usage.ndjson", "--gate", "a/b"), 1, "'a/b'"),
        (("usage.ndjson", "--deadline", "2026-11-21T06:00"), 2, "no time zone"),
        (("empty.ndjson",), 1, "empty"),
    ],
)
def test_a_wrong_call_is_one_clear_message(storage, queue, tmp_path, call):
    """No traceback, an exit status, and what was wrong."""
    arguments, status, said = call
    (tmp_path / "usage.ndjson").write_text(LINES[0])
    (tmp_path / "empty.ndjson").touch()
    done = sluice(storage, *arguments, cwd=tmp_path)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert queue.peek_messages() == []


def test_a_room_is_another_queue_and_container(storage, queue, usage, tmp_path):
    """What is dropped into a room is nowhere else, and the job is shown by the id that it has inside."""
    provision(storage, topology(parts=[rooms(["team-a"])]))
    done = sluice(storage, usage, "--job", "nightly", "--room", "team-a", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["job"] == "team-a~nightly"
    with (
        QueueClient.from_connection_string(storage, "submissions-team-a") as own,
        ContainerClient.from_connection_string(storage, "payloads-team-a") as container,
        ContainerClient.from_connection_string(storage, "payloads") as common,
    ):
        (message,) = own.peek_messages(32)
        said = json.loads(message.content)["sluice"]
        # A publisher knows its own name for the job and no other.
        assert said["job"] == "nightly"
        assert [*container.list_blob_names()] == ([said["payload"]["blob"]] if "blob" in said["payload"] else [])
        assert not [name for name in common.list_blob_names() if name.startswith(("nightly/", "team-a"))]
    assert queue.peek_messages(32) == []
    words = sluice(storage, usage, "--job", "nightly", "--room", "team-a", cwd=tmp_path).stdout
    assert "sluice jobs watch team-a~nightly" in words


@pytest.mark.parametrize("room", ["Team", "a_b", "x-poison", "r~q"])
def test_what_is_no_room_is_refused_before_anything_is_sent(room, storage, queue, usage, tmp_path):
    """The name and what a room is called."""
    done = sluice(storage, usage, "--room", room, cwd=tmp_path)
    assert (done.returncode, queue.peek_messages(32)) == (2, [])
    assert "is not a room" in done.stderr


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (("--workload", "billng"), "the app will park this submission until it has the workload"),
        (("--workload", "billing", "--sum", "amount"), "workload billing adds up quantity, not amount"),
        (("--sum", "nosuch"), "the sum of nosuch is 0"),
        (("--workload", "billing"), ""),
    ],
)
def test_what_the_app_will_refuse_is_said_at_once(storage, queue, usage, words, warning):
    """The submission is sent all the same: the app may have another version. Without the setting, nothing is known."""
    known = {"SLUICE_WORKLOADS": "shared.workloads.billing:Billing"}
    done = sluice(storage, usage, *words, cwd=usage.parent, **known)
    assert done.returncode == 0
    assert warning in done.stderr if warning else done.stderr == ""
    assert "the app will" not in sluice(storage, usage, *words, cwd=usage.parent).stderr
    # A workload whose code this machine lacks is no fault.
    assert sluice(storage, usage, cwd=usage.parent, SLUICE_WORKLOADS="not_here:Nothing").stderr == ""
    queue.clear_messages()
