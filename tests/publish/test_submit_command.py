"""`sluice submit`, as a person types it."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.storage.blob import ContainerClient
from azure.storage.queue import AccountSasPermissions, QueueClient, ResourceTypes, generate_account_sas

from shared.app import Stores
from shared.azure.connections import Connections
from shared.grammar import room_job
from shared.ledger.records import Job, JobState
from shared.payload import Intake, Limits, PayloadStores, fingerprint, open_envelope, read_submission
from shared.topology import rooms, topology
from tests import command
from tests.forked import ForkedBroker
from tests.publish.test_hints import hints_on
from tests.waiting import LIMIT, until
from tools.local.paths import ROOT
from tools.local.provision import provision

SLUICE = Path(sys.executable).parent / "sluice"
BILLING = "shared.workloads.billing:Billing"
#: A transaction that fits the workloads of these tests.
USAGE = {"account": "a", "plan": "standard", "quantity": "0.25", "amount": "1"}
LINES = [json.dumps({"id": number, **USAGE}) for number in range(3000)]


@pytest.fixture
def usage(tmp_path):
    """A file of transactions."""
    file = tmp_path / "Usage 2026-11.ndjson.gz"
    file.write_bytes(gzip.compress("\n".join(LINES).encode(), mtime=0))
    return file


def environment(storage, **settings):
    """Return the settings of the command, and little else."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    known = {"PYTHONPATH": str(ROOT), "SluiceStorage": storage, "SLUICE_WORKLOADS": BILLING}
    return {name: value for name, value in {**kept, **known, **settings}.items() if value is not None}


def accept(storage, queue, room="", **fields):
    """Accept the oldest submission as the app does, in the state that is wanted. Return the job."""
    message = queue.receive_message()
    with Connections(storage) as connections, Stores(connections) as stores:
        submission = read_submission(open_envelope(message.content, Limits()), message.id, Limits())
        payload = Intake(room, PayloadStores(stores.container), Limits(), 100).take(submission)
        known = replace(submission, job=room_job(room, submission.job))
        new = Job.accept(known, fingerprint(submission, payload), datetime.now(UTC), None)
        job, is_new = stores.ledger.insert(replace(new, items=payload.index.items, chunks=1, **fields))
        assert is_new
    queue.delete_message(message)
    return job


def sluice(storage, *arguments, cwd, **settings):
    """Run the command against the account."""
    with tempfile.TemporaryDirectory() as scratch:
        return command.run(["submit", *arguments], environment(storage, **settings), cwd, Path(scratch))


def test_a_file_becomes_a_job(storage, queue, usage, tmp_path):
    """One message is in the queue, and the command says what to type next."""
    done = sluice(storage, usage, "--sum", "quantity", "--deadline", "2026-11-21T07:00+01:00", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (message,) = queue.peek_messages(32)
    said = json.loads(message.content)["sluice"]
    assert said["deadline"] == "2026-11-21T06:00:00Z"
    assert said["declared"] == {"items": 3000, "sums": {"quantity": "750.00"}}
    assert said["job"].startswith("usage-2026-11-")
    assert "sent 3,000 transactions" in done.stdout
    assert "checked: all 3,000 lines; the workers read every line" in done.stdout
    assert done.stdout.splitlines()[-1] == f"watch it with: sluice jobs watch {said['job']}"


def test_the_first_lines_are_checked_and_all_of_them_on_demand(storage, queue, tmp_path):
    """A faulty line behind them is left to the workers, and the command says how far it read."""
    (tmp_path / "long.ndjson").write_text("\n".join([*LINES[:1] * 10_000, "{'id': 1}"]))
    checked = sluice(storage, "long.ndjson", "--check", cwd=tmp_path)
    assert (checked.returncode, checked.stderr.partition(": byte")[0][:32]) == (1, "sluice: not_json: line 10001: Ex")
    assert queue.peek_messages() == []
    done = sluice(storage, "long.ndjson", cwd=tmp_path)
    assert "checked: the first 10,000 of 10,001 lines; the workers read every line" in done.stdout
    assert len(queue.peek_messages()) == 1


def test_totals_of_another_system_are_declared_and_no_line_is_read_for_them(storage, queue, usage, tmp_path):
    """They need not be right: the job proves them."""
    done = sluice(storage, usage, "--declare", "quantity=749.5", "--declare", "items=3000", "--json", cwd=tmp_path)
    assert (json.loads(done.stdout)["sums"], json.loads(done.stdout)["checked"]) == ({"quantity": "749.5"}, 3000)
    (message,) = queue.peek_messages(32)
    assert json.loads(message.content)["sluice"]["declared"] == {"items": 3000, "sums": {"quantity": "749.5"}}


def test_a_hint_follows_where_there_is_a_bus(storage, queue, usage, tmp_path):
    """Unless it is turned off; a bus that is away is told, and the job is sent all the same."""
    with ForkedBroker.start() as bus:
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
    usage.write_bytes(gzip.compress(LINES[0].encode()))
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
        (("usage.ndjson", "--declare", "quantity"), 2, "FIELD=AMOUNT"),
        (("usage.ndjson", "--declare", "items=1", "--declare", "items=1"), 2, "once"),
        (("usage.ndjson", "--declare", "quantity=1", "--sum", "quantity"), 2, "--sum"),
        (("usage.ndjson", "--declare", "quantity=1e3"), 1, "bad_sum"),
        (("usage.ndjson", "--declare", "items=2"), 1, "count_mismatch: 2 transactions are declared"),
        (("usage.ndjson", "--declare", "items=two"), 2, "'two' is no number"),
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
    provision(storage, topology(entities=[rooms(["team-a"])]))
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
    """The submission is sent all the same: the app may have another version."""
    done = sluice(storage, usage, *words, cwd=usage.parent)
    assert done.returncode == 0
    assert warning in done.stderr if warning else done.stderr == ""
    queue.clear_messages()


SALES = """
from decimal import Decimal
from msgspec import Struct

class Sale(Struct):
    amount: Decimal

class Sales:
    name, transaction, partial, sums = "sales", Sale, int, ("amount",)
    def map(self, one, number): ...
    def combine(self, mapped): ...
    def merge(self, left, right): ...
    def finish(self, partial): ...
"""


@pytest.mark.parametrize("where", ["here", "beside the settings"])
def test_ones_own_workload_is_checked_too(storage, queue, usage, tmp_path, where):
    """Its file lies beside function_app.py, which is here or beside the settings file, and on no path of the command."""
    app, here = tmp_path / "app", tmp_path / "elsewhere"
    for folder in (app, here):
        folder.mkdir()
    (app / "sales.py").write_text(SALES)
    (app / "function_app.py").touch()
    file = app / "local.settings.json"
    file.write_text(json.dumps({"Values": {"SLUICE_WORKLOADS": "sales:Sales", "SluiceStorage": storage}}))
    options, cwd = ((), app) if where == "here" else (("--settings", file), here)
    for words, warning in (
        (("--workload", "nosuch"), "the app will park this submission until it has the workload"),
        (("--workload", "billing"), "known: sales"),
        (("--workload", "sales", "--sum", "quantity"), "workload sales adds up amount, not quantity"),
        (("--workload", "sales"), ""),
    ):
        done = sluice(storage, usage, *words, *options, cwd=cwd, SLUICE_WORKLOADS=None)
        assert done.returncode == 0, done.stderr
        assert warning in done.stderr if warning else done.stderr == ""
    queue.clear_messages()


def test_a_file_that_does_not_fit_its_workload_is_not_sent(storage, queue, usage, tmp_path):
    """Each value of CSV is text, for one; the error names the line, the field and the option that mends it."""
    (tmp_path / "sales.py").write_text(SALES.replace("amount: Decimal", "amount: Decimal\n    pieces: int"))
    file, lines = tmp_path / "sales.csv", tmp_path / "sales.ndjson"
    file.write_text("amount,pieces\n1.5,2\n2.5,3\n")
    lines.write_text('{"amount": "1", "pieces": 1}\n\n{"amount": "1"}\n')
    sales = {"cwd": tmp_path, "SLUICE_WORKLOADS": "sales:Sales"}
    done = sluice(storage, file, "--workload", "sales", **sales)
    assert (done.returncode, queue.receive_message()) == (1, None)
    assert (
        "none of the first 2 lines fits workload 'sales'. line 2: Expected `int`, got `str` - at `$.pieces` (--number "
        in done.stderr
    )
    for words, file_, warning in (
        (("--number", "pieces"), file, ""),
        (("--no-fit",), file, ""),
        ((), lines, "1 of the first 2 lines do not fit workload 'sales', which will reject them. line 3: "),
    ):
        done = sluice(storage, file_, "--workload", "sales", *words, **sales)
        assert done.returncode == 0, done.stderr
        assert warning in done.stderr if warning else done.stderr == ""
        queue.clear_messages()


@pytest.mark.parametrize(
    ("workloads", "why"),
    [(None, "no SLUICE_WORKLOADS"), ("not_here:Nothing", "No module named"), ("broken:Sales", "SystemExit: at import")],
)
def test_a_check_that_was_not_possible_is_told(storage, queue, usage, workloads, why):
    """Silence would read as well: what was not checked and why. It is sent all the same."""
    (usage.parent / "broken.py").write_text("raise SystemExit('at import')")
    done = sluice(storage, usage, "--workload", "sales", cwd=usage.parent, SLUICE_WORKLOADS=workloads)
    assert done.returncode == 0
    assert "not checked: whether the app has workload 'sales'" in done.stderr
    assert why in done.stderr
    queue.clear_messages()


def test_who_may_not_read_what_the_app_keeps_is_told_what_was_not_checked(storage, queue, usage):
    """A publisher has a role on its queue and its container alone: the gate and the job's id are not checked."""
    words = dict(part.split("=", 1) for part in storage.split(";") if part)
    # Rights on queues alone. The blobs of gates and the table of jobs refuse it.
    signature = generate_account_sas(
        words["AccountName"],
        words["AccountKey"],
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(read=True, add=True),
        datetime.now(UTC) + timedelta(hours=1),
    )
    ends = "".join(f"{name}={words[name]};" for name in ("BlobEndpoint", "QueueEndpoint", "TableEndpoint"))
    queue_only = f"{ends}SharedAccessSignature={signature}"
    done = sluice(queue_only, usage, "--job", "mine", "--gate", "nightly", cwd=usage.parent)
    assert done.returncode == 0, done.stderr
    assert "not checked: whether gate 'nightly' is known" in done.stderr
    assert "not checked: whether job 'mine' has other content" in done.stderr
    assert len(queue.peek_messages(32)) == 1


@pytest.mark.parametrize("room", ["", "team-b"])
def test_other_content_under_the_id_of_a_job_is_not_sent(storage, queue, usage, room):
    """Before anything is stored: what differs, the remedy, status 1. The same content is sent again, and said to be."""
    provision(storage, topology(entities=[rooms(["team-b"])]))
    options = ("--job", "corrected", "--sum", "quantity", *(("--room", room) if room else ()))
    name = f"{room}~corrected" if room else "corrected"
    with QueueClient.from_connection_string(storage, f"submissions-{room}" if room else "submissions") as own:
        first = sluice(storage, usage, *options, cwd=usage.parent)
        assert "already submitted" not in first.stdout
        job = accept(storage, own, room, state=JobState.COMPLETE)
        assert job.job == name
        again = sluice(storage, usage, *options, cwd=usage.parent)
        # There is no bus, so the tick finds what is in a room.
        waits = f"sluice: without a hint room '{room}' is looked at every minute\n" if room else ""
        assert (again.returncode, again.stderr, len(own.peek_messages(32))) == (0, waits, 1)
        assert "already submitted" in again.stdout
        assert json.loads(sluice(storage, usage, *options, "--json", cwd=usage.parent).stdout)["already"] == "complete"
        own.clear_messages()
        usage.write_bytes(gzip.compress("\n".join(LINES[:-1]).encode()))
        for words, differing in (
            ((), "it has 3,000 transactions, this has 2,999"),
            ((), "its declared sum of quantity is 750.00, this has 749.75"),
            (("--gate", "nightly"), "its gate is none, this names nightly"),
            (("--workload", "sales"), "its workload is billing, this is for sales"),
        ):
            done = sluice(storage, usage, *options, *words, cwd=usage.parent)
            assert done.returncode == 1, words
            assert f"nothing was sent: job {name} exists with other content" in done.stderr
            assert differing in done.stderr
            assert f"sluice jobs show {name}" in done.stderr
        assert own.peek_messages() == []


def test_content_that_differs_in_nothing_declared_differs_all_the_same(storage, queue, usage):
    """As many lines with the same sum, of other accounts; and a job whose row keeps little."""
    options = ("--job", "subtle", "--sum", "quantity")
    sluice(storage, usage, *options, cwd=usage.parent)
    job = accept(storage, queue, state=JobState.COMPLETE)
    usage.write_bytes(gzip.compress("\n".join(LINES[::-1]).encode()))
    for buried in (False, True):
        if buried:
            with Connections(storage) as connections, Stores(connections) as stores:
                assert stores.ledger.commit(replace(stores.ledger.read(job.job).tombstone()))
        done = sluice(storage, usage, *options, cwd=usage.parent)
        assert (done.returncode, queue.peek_messages()) == (1, [])
        assert "Differing: its transactions, or how they are packed" in done.stderr


@pytest.fixture
def waiting(storage, queue, usage):
    """A function that starts `submit --wait`, and returns the process when the submission is in the queue."""
    begun = []

    def start(*words):
        process = subprocess.Popen(
            [SLUICE, "submit", str(usage), "--wait", *words],
            env=environment(storage),
            cwd=usage.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        until(lambda: queue.peek_messages() or process.poll() is not None)
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (JobState.COMPLETE, 0),
        (JobState.COMPLETED_WITH_PARKED, 4),
        (JobState.UNBALANCED, 5),
        (JobState.PAUSED, 6),
    ],
)
def test_who_waits_gets_the_end_of_the_job_as_status(storage, queue, waiting, state, status):
    """Each end has a status of its own, and the job is shown."""
    process = waiting("--job", f"waits-{state.value}")
    accept(storage, queue, state=state, finished_at=datetime.now(UTC))
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == status, err
    assert f"state\t{state.value}" in out


def test_who_waits_for_other_content_than_that_of_the_job_is_refused(storage, queue, usage, waiting):
    """Two publishers at once: both saw no job, and both sent. The one that the app took second does not read "complete"."""
    process = waiting("--job", "raced", "--json")
    message = queue.receive_message(visibility_timeout=60)
    usage.write_bytes(gzip.compress("\n".join(LINES[:-1]).encode()))
    assert sluice(storage, usage, "--job", "raced", cwd=usage.parent).returncode == 0
    until(queue.peek_messages)
    accept(storage, queue, state=JobState.COMPLETE, finished_at=datetime.now(UTC))
    out, err = process.communicate(timeout=LIMIT)
    assert (process.returncode, json.loads(out)["end"]) == (1, None), err
    queue.delete_message(message)


def test_who_waits_with_a_time_gets_a_status_of_its_own(storage, queue, usage):
    """Nobody accepted it: 1. Accepted and not ended: 3."""
    done = sluice(storage, usage, "--job", "timed", "--wait", "--timeout", "0", cwd=usage.parent)
    assert (done.returncode, "was not accepted in time" in done.stderr) == (1, True)
    accept(storage, queue, state=JobState.RUNNING)
    assert sluice(storage, usage, "--job", "timed", "--wait", "--timeout", "0", cwd=usage.parent).returncode == 3
    queue.clear_messages()


@pytest.fixture
def large(tmp_path):
    """A packed file whose text fills three stretches, of few different lines."""
    file = tmp_path / "large.ndjson.gz"
    line = json.dumps({**USAGE, "note": "x" * 2000}).encode() + b"\n"
    file.write_bytes(gzip.compress(line * 75_000, 1, mtime=0))
    return file


def test_a_large_file_goes_in_stretches_and_is_found_again(storage, queue, large, tmp_path):
    """The same command again finds all of them: after a Ctrl-C it goes on behind those that are there."""
    done = sluice(storage, large, cwd=tmp_path)
    assert (done.returncode, "began with its first stretch" in done.stderr) == (0, True)
    assert "sent 75,000 transactions" in done.stdout
    assert "in 3 stretches, 0 of which were there" in done.stdout
    assert "checked: the first 10,000 of 75,000 lines" in done.stdout
    messages = {message.content for message in queue.peek_messages(32)}
    assert [json.loads(one)["sluice"]["payload"] for one in messages] == [{"stretches": True}]
    again = sluice(storage, large, "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["stretches"] == 3
    assert again.stderr == ""
    job = accept(storage, queue, growing=True, stretches=1)
    with Connections(storage) as connections, Stores(connections) as stores:
        stores.job_operator.stop(job.job, by="ann", why="the wrong file")
    refused = sluice(storage, large, cwd=tmp_path)
    assert (refused.returncode, "is stopped and takes no more stretches" in refused.stderr) == (1, True)


def test_a_pipe_needs_the_name_of_a_job(storage, queue, tmp_path):
    """It cannot be read for an id first. With one, it is sent as a file is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused = sluice(storage, pipe, cwd=tmp_path)
    assert (refused.returncode, "--job" in refused.stderr) == (2, True)
    writer = threading.Thread(target=pipe.write_text, args=["\n".join(LINES)], daemon=True)
    writer.start()
    done = sluice(storage, pipe, "--job", "piped", cwd=tmp_path)
    writer.join(LIMIT)
    assert (done.returncode, "sent 3,000 transactions as job piped" in done.stdout) == (0, True)
