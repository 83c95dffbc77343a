"""`sluice gate`, as a person runs it, on storage alone."""

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shared.azure.connections import Connections
from shared.gate.held import HeldEntry
from shared.gate.receipts import Receipt, SeenBy
from shared.messages import FirstChunkMark
from tests.gate.conftest import House, bodies
from tests.waiting import LIMIT
from tools.cli.main import app

SLUICE = Path(sys.executable).parent / "sluice"
GATE_FIELDS = {"gate", "state", "epoch", "opened_by", "why", "at", "once", "scheduled", "held"}


@pytest.fixture
def sluice(stack_settings, tmp_path, monkeypatch):
    """A function that runs `sluice gate` in this process, with the stack's settings from a file."""
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "settings.json"

    def run(*arguments, typed=None, settings=stack_settings):
        file.write_text(json.dumps({"Values": settings}))
        return CliRunner().invoke(app, ["gate", *arguments, "--settings", str(file)], input=typed)

    return run


@pytest.fixture
def sluice_process(tmp_path):
    """A function that runs the installed command with nothing but these settings in its environment."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}

    def run(*arguments, settings):
        return subprocess.run(
            [SLUICE, "gate", *arguments],
            env={**kept, **settings},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )

    return run


@pytest.fixture
def house(connections, stack_settings):
    """Everything about gates, with the real clock and bus."""
    with Connections.parse(stack_settings) as both:
        yield House(both)


def test_open_and_close_say_what_they_did(sluice, house, gate):
    """A gate is opened and closed, with who, why and what waits; a second time changes nothing."""
    opened = sluice("open", gate, "--yes", "--why", "the batch is due", "--by", "ann", "--json")
    document = json.loads(opened.stdout)
    assert (opened.exit_code, set(document)) == (0, GATE_FIELDS | {"changed", "unsignalled", "roll"})
    assert (document["state"], document["epoch"], document["changed"], document["unsignalled"]) == ("open", 1, True, "")
    again = sluice("open", gate, "--yes")
    assert f"{gate} was already open at epoch 1" in again.stdout
    assert f"{gate} is now closed at epoch 1" in sluice("close", gate).stdout
    assert house.gates.read(gate).changes[1].why == "the batch is due"


def test_an_opening_is_confirmed(sluice, house, gate):
    """Without --yes the command says how much starts, and anything but yes leaves the gate closed."""
    house.held_work.hold(gate, "a", "work-00", "{}")
    refused = sluice("open", gate, typed="n\n")
    assert (refused.exit_code, house.gates.read(gate).epoch) == (1, 0)
    assert f"This starts the 1 entries held behind {gate} and cannot be undone" in refused.stderr
    opened = sluice("open", gate, typed="y\n")
    assert opened.exit_code == 0
    assert "at epoch 1; 1 held entry starts" in opened.stdout
    assert house.gates.read(gate).is_open


def test_a_gate_that_nobody_ever_used_is_doubted(sluice, gate):
    """A misspelt name is asked about before it is opened."""
    assert "is it spelt like this?" in sluice("open", gate, typed="n\n").stderr


def test_a_planned_opening_is_shown_and_taken_back(sluice, house, gate):
    """--at plans, list and status show it, close takes it back and says so."""
    at = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0)
    planned = json.loads(sluice("open", gate, "--at", at.isoformat(), "--once", "--yes", "--json").stdout)
    assert planned["scheduled"]["at"] == at.isoformat().replace("+00:00", "Z")
    assert planned["scheduled"]["once"]
    assert f"{at:%Y-%m-%d %H:%M:%S}, once" in sluice("list").stdout
    assert "taken back: the opening planned for" in sluice("close", gate).stdout
    assert house.gates.read(gate).scheduled is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["open", "A/b", "--yes"], "is not a valid gate name"),
        (["open", "g", "--yes", "--at", "tomorrow"], "is not a valid time"),
        (["open", "g", "--yes", "--at", "2026-11-21T09:00"], "has no time zone"),
        (["open", "g", "--yes", "--at", "2020-01-01T00:00Z"], "that is in the past"),
        (["wait", "g", "--timeout", "-1"], "--timeout"),
    ],
)
def test_a_call_that_makes_no_sense_has_status_2(sluice, arguments, reason):
    """The command says what is wrong and does nothing."""
    done = sluice(*arguments)
    assert done.exit_code == 2
    assert reason in " ".join(done.stderr.split())


EVERY = ("--every", "0 2 * * mon-fri", "--zone", "Europe/Berlin")


def test_a_timetable_is_set_shown_and_ended(sluice, house, gate):
    """In words, with its next opening; list and status have it, and off ends it with the opening that it planned."""
    first = sluice("open", gate, *EVERY, "--why", "night run", "--by", "ann", "--yes")
    at = house.gates.read(gate).scheduled.at
    assert first.exit_code == 0
    assert first.stdout.startswith(f"{gate} opens at 02:00 on Monday to Friday, Europe/Berlin, each time once\n")
    assert f"next: {at:%Y-%m-%d %H:%M:%S} UTC" in first.stdout
    assert (
        "each time once: it was so already"
        in sluice("open", gate, *EVERY, "--why", "night run", "--by", "ann", "--yes").stdout
    )
    words = "at 02:00 on Monday to Friday, Europe/Berlin"
    assert f"timetable: {words}, set by ann: night run" in sluice("status", gate).stdout
    assert f"{gate} opens {words}" in sluice("list").stdout
    document = json.loads(sluice("status", gate, "--json").stdout)
    assert document["timetable"] == {
        "every": "0 2 * * mon-fri",
        "zone": "Europe/Berlin",
        "minutes": 10.0,
        "by": "ann",
        "why": "night run",
        "set_at": document["timetable"]["set_at"],
    }
    assert f"{gate} has no timetable any more" in sluice("open", gate, "--every", "off", "--why", "moved").stdout
    assert house.gates.read(gate).scheduled is None
    assert f"{gate} had no timetable" in sluice("open", gate, "--every", "off").stdout
    rows = {one["gate"]: one for one in json.loads(sluice("list", "--json").stdout)["gates"]}
    assert rows[gate]["timetable"] is None


def test_a_timetable_is_confirmed_and_answers_in_json(sluice, house, gate):
    """Without --yes nothing is set but by a yes; --json has the gate, its plan and the timetable."""
    house.held_work.hold(gate, "a", "work-00", "{}")
    refused = sluice("open", gate, *EVERY, typed="n\n")
    assert (refused.exit_code, gate in house.timetables.read()) == (1, False)
    assert f"each time this starts all that {gate} holds then, and cannot be undone. It holds 1 now" in refused.stderr
    document = json.loads(sluice("open", gate, *EVERY, "--cold", "--yes", "--json").stdout)
    assert set(document) == GATE_FIELDS | {"changed", "unsignalled", "timetable"}
    assert (document["timetable"]["minutes"], document["scheduled"]["once"]) == (None, True)
    ended = json.loads(sluice("open", gate, "--every", "off", "--json").stdout)
    assert (ended["timetable"], ended["scheduled"], ended["changed"]) == (None, None, True)


def test_a_persons_opening_beside_a_timetable(sluice, house, gate):
    """Planned first it stays, later it is refused, and by hand the night stays planned."""
    at = datetime.now(UTC) + timedelta(hours=1)
    sluice("open", gate, "--at", f"{at:%Y-%m-%dT%H:%M:%SZ}", "--yes", "--by", "bob")
    # Once a year, so that no run of this test meets the day.
    yearly = ("--every", f"0 12 1 {(at.month + 5) % 12 + 1} *", "--zone", "UTC")
    assert "planned by bob; the timetable goes on after it" in sluice("open", gate, *yearly, "--yes").stdout
    assert "all the same, planned by bob" in sluice("open", gate, "--every", "off").stdout
    sluice("close", gate)
    sluice("open", gate, *yearly, "--yes")
    later = house.gates.read(gate).scheduled.at + timedelta(hours=1)
    refused = sluice("open", gate, "--at", later.isoformat(), "--yes")
    assert (refused.exit_code, "its timetable opens it before that" in " ".join(refused.stderr.split())) == (2, True)
    assert "its timetable goes on: " in sluice("open", gate, "--yes").stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--every", "0 2 31 2 *", "--zone", "UTC"], "never comes: no day of the month 31 is in February"),
        (["--every", "0 25 * * *", "--zone", "UTC"], "hour '25' is no number from 0 to 23"),
        (["--every", "*/5 * * * *", "--zone", "UTC"], "openings are at least 15 minutes apart"),
        (["--every", "0 2 * * *", "--zone", "Berlin"], "there is no time zone 'Berlin': did you mean Europe/Berlin"),
        (["--every", "0 2 * * *"], "--every needs --zone"),
        (["--zone", "UTC"], "--zone goes with --every"),
        (["--every", "off", "--zone", "UTC"], "leave out --zone"),
        (["--every", "0 2 * * *", "--zone", "UTC", "--at", "2030-11-21T09:00Z"], "choose one of the two"),
        (["--every", "0 2 * * *", "--zone", "UTC", "--order", "lottery", "--seed", "0b" * 32], "leave out --every"),
    ],
)
def test_a_timetable_without_sense_has_status_2_and_sets_nothing(sluice, house, gate, arguments, reason):
    """The command says which field or option, and what would be right."""
    done = sluice("open", gate, "--yes", *arguments)
    assert (done.exit_code, reason in " ".join(done.stderr.split())) == (2, True), done.stderr
    assert gate not in house.timetables.read()


def test_list_names_what_waits_in_silence(sluice, house, gate):
    """A gate without a blob that holds work is listed, with how much and how long, and what to type."""
    house.held_work.hold(gate, "a", "work-00", "{}")
    rows = {row["gate"]: row for row in json.loads(sluice("list", "--json").stdout)["gates"]}
    assert rows[gate]["never_opened"]
    assert rows[gate]["held"]["count"] == 1
    text = " ".join(sluice("list").stdout.split())
    assert f"1 held behind {gate} for" in text
    assert f"sluice gate open {gate}" in text


def test_list_shows_the_other_gates_beside_a_broken_one(sluice, house, gate, connections):
    """Whoever looks for the gate that is broken finds it in the list, with what to do."""
    house.gate_operator.open(f"{gate}-z", by="ann")
    blob = connections.blobs.get_blob_client("gates", gate)
    blob.upload_blob(b"Set")
    listed, rows = sluice("list"), json.loads(sluice("list", "--json").stdout)["gates"]
    blob.delete_blob()
    assert f"the blob of gate '{gate}' is not a gate" in " ".join(listed.stdout.split())
    states = {row["gate"]: row["state"] for row in rows}
    assert (states[gate], states[f"{gate}-z"]) == ("unreadable", "open")


def test_status_shows_receipts_and_stragglers(sluice, house, gate):
    """p50 and p99 by push and by poll, who is late, who is missing, and the history."""
    house.gate_operator.open(gate, by="ann", why="x")
    for node, how, lag in (("n1", SeenBy.PUSH, 0.1), ("n2", SeenBy.PUSH, 0.3), ("n3", SeenBy.POLL, 9)):
        house.receipts.write(
            Receipt(
                gate=gate, epoch=1, node=node, how=how, seen_at=datetime.now(UTC), lag=timedelta(seconds=lag),
                interval=timedelta(seconds=2.5),
            )
        )  # fmt: skip
    document = json.loads(sluice("status", gate, "--json").stdout)
    more = {"timetable", "receipts", "first_chunk", "first_chunks", "stragglers", "changes"} | {"forecast", "happened"}
    assert set(document) == GATE_FIELDS | more
    assert document["receipts"]["push"] == {"nodes": 2, "p50": 0.1, "p99": 0.3}
    assert document["stragglers"] == {"n3": "9.0 s late"}
    text = sluice("status", gate).stdout
    for part in ("open at epoch 1", "by ann: x", "seen by push: 2 nodes", "straggler n3: 9.0 s late"):
        assert part in text


def test_status_shows_when_the_first_chunk_began(sluice, house, gate):
    """Of the last opening, and how such delays are spread, by the way that the releaser saw it."""
    assert json.loads(sluice("status", gate, "--json").stdout)["first_chunk"] is None
    for epoch, how in ((1, "poll"), (2, "push"), (3, "push")):
        opened_at = datetime.now(UTC) - timedelta(seconds=10 * epoch)
        house.first_chunks.note(FirstChunkMark(gate=gate, epoch=epoch, opened_at=opened_at, seen_by=how))
        house.gate_operator.open(gate, by="ann")
        house.gate_operator.close(gate, by="ann")
    document = json.loads(sluice("status", gate, "--json").stdout)
    assert document["first_chunk"]["seconds"] == pytest.approx(30, abs=9)
    assert (document["first_chunk"]["how"], set(document["first_chunk"])) == ("push", {"seconds", "how", "node", "at"})
    assert document["first_chunks"]["push"]["openings"] == 2
    assert document["first_chunks"]["poll"]["p50"] == pytest.approx(10, abs=9)
    text = sluice("status", gate).stdout
    assert "after the opening, which was seen by push" in text
    assert "first chunks by push: 2 openings, p50" in text


def test_wait_ends_when_the_gate_opens(sluice, house, gate, stack_settings, tmp_path):
    """Status 3 when it was not opened in time, 0 when it was."""
    late = sluice("wait", gate, "--timeout", "0", "--json")
    assert (late.exit_code, json.loads(late.stdout)) == (3, {"gate": gate, "epoch": None})
    waiting = subprocess.Popen(
        [SLUICE, "gate", "wait", gate, "--timeout", str(LIMIT), "--json"],
        env={**os.environ, **stack_settings},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(0.5)
    house.gate_operator.open(gate, by="ann")
    said, _ = waiting.communicate(timeout=LIMIT)
    assert (waiting.returncode, json.loads(said)["epoch"]) == (0, 1)


def test_everything_but_the_push_works_without_a_bus(sluice, house, gate, queue, stack_settings):
    """With the bus down a gate is opened nevertheless, and the command reports the unsent signal."""
    nowhere = "Endpoint=sb://127.0.0.1:9;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true;"
    house.held_work.hold(gate, "a", queue.queue_name, "m")
    done = sluice("open", gate, "--yes", settings={**stack_settings, "SluiceBus": nowhere})
    assert done.exit_code == 0
    assert "the next poll finds the same" in done.stderr
    assert "Traceback" not in done.stderr
    house.tick.run()
    assert bodies(queue) == ["m"]


def test_storage_that_does_not_answer_is_one_line(sluice_process, gate, stack_settings):
    """A failure is one line with status 1."""
    nowhere = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=Yg==;" + "".join(
        f"{service}Endpoint=http://127.0.0.1:9/a;" for service in ("Blob", "Queue", "Table")
    )
    done = sluice_process("status", gate, settings={**stack_settings, "SluiceStorage": nowhere})
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("sluice: storage does not answer at 127.0.0.1:9 (Connection refused)")


def test_the_status_of_a_gate_that_was_never_used_is_a_problem(sluice, house):
    """A misspelt name is noticed by a script too; one that holds work, or was opened once, is no such name."""
    done = sluice("status", "mispelt-gate")
    assert (done.exit_code, "was never used: check its spelling" in done.stderr) == (1, True)
    assert json.loads(sluice("status", "mispelt-gate", "--json").stdout)["state"] == "closed"
    house.held.insert(HeldEntry(gate="holds-only", id="j", epoch=0, queue="q", message="m", held_at=datetime.now(UTC)))
    assert sluice("status", "holds-only").exit_code == 0
    sluice("open", "opened-once", "--yes")
    sluice("close", "opened-once")
    assert sluice("status", "opened-once").exit_code == 0
