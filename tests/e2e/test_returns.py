"""The process of docs/processes.md, from the page to its end: killed, parked, replayed, and seen."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from shared.app import App, Stores
from shared.azure import Connections
from shared.processes import decode_commands, decode_events
from shared.settings import Settings
from shared.workloads import Workloads
from tests.console.principals import describe
from tests.e2e.test_console import Browser
from tests.e2e.test_documents import blocks
from tests.own_returns import make_project
from tests.processes.world import HandClock
from tests.waiting import LIMIT, until
from tools.local.paths import ACTIVATE, ROOT
from tools.local.stack import StackOptions, running, start_host

ENDS = {"fetched", "given_up"}
SETTINGS = {
    "SLUICE_CAPABILITIES": "console,own.returns:RETURNS",
    "SLUICE_RETURNS_MINUTES": "3",
    "WEBSITE_AUTH_ENABLED": "True",
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with the six files of the page, in a folder of its own."""
    folder = tmp_path / "project"
    make_project(folder, monkeypatch)
    return folder


class Outside:
    """The carriers, and the shop that hears what becomes of its returns."""

    def __init__(self, connections, dice):
        self.connections, self.dice = connections, dice
        self.lost, self.asked, self.heard = set(), Counter(), {}
        self._ended = Event()
        #: Answers that are to come twice.
        self._later = []
        #: What ended a thread that had to go on.
        self.problems = []
        self._threads = [Thread(target=self._go_on, args=(one,)) for one in (self._fetch, self._hear)]

    def __enter__(self):
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        for one in self._threads:
            one.join()

    def _go_on(self, work):
        """Work until the end. Whatever the bus takes back, such as a lock on a busy machine, comes again."""
        while not self._ended.is_set():
            try:
                work()
            except ServiceBusError:
                continue
            except Exception as error:  # noqa: BLE001 - the test says it, and would wait in vain
                self.problems.append(repr(error))
                return

    def _fetch(self):
        """Answer each command: once, twice, late, or, of some at the first carrier, never."""
        with (
            self.connections.bus_client() as bus,
            bus.get_queue_receiver("returns-commands") as receiver,
            bus.get_queue_sender("returns-answers") as sender,
        ):
            while not self._ended.is_set():
                for message in receiver.receive_messages(50, max_wait_time=1):
                    for command in decode_commands(b"".join(message.body)):
                        name = command.body["return"]
                        self.asked[name, command.generation] += 1
                        if command.generation == 1 and name in self.lost:
                            continue
                        fields = {"return": name, "kind": "fetched", "generation": command.generation}
                        answer = json.dumps(fields)
                        self._later += [answer] * self.dice.choice((0, 1))
                        sender.send_messages(ServiceBusMessage(answer))
                    receiver.complete_message(message)
                for answer in self._later[:5]:
                    sender.send_messages(ServiceBusMessage(answer))
                del self._later[:5]

    def _hear(self):
        """Keep each event of each return by its version: a range may come twice."""
        with (
            self.connections.bus_client() as bus,
            bus.get_subscription_receiver("returns-events", "shop") as receiver,
        ):
            while not self._ended.is_set():
                for message in receiver.receive_messages(50, max_wait_time=1):
                    for one in decode_events(b"".join(message.body)):
                        for event in one.events:
                            known = self.heard.setdefault((one.home, event.version), event)
                            assert (known.kind, known.generation) == (event.kind, event.generation)
                    receiver.complete_message(message)

    def ends(self):
        """Return the kinds of the last events of each return."""
        found = {}
        for (home, _), event in sorted(self.heard.items()):
            if event.kind in ENDS:
                found.setdefault(home, []).append(event.kind)
        return found


def kill(host):
    """End the host and all that it started, at once."""
    instances = host.instance_pids().values()
    os.killpg(host.process.pid, signal.SIGKILL)
    # Each leads a group of its own. It would end by itself, and finish its work first.
    for pid in instances:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with host.process:
        host.process.wait()


def sluice(project, settings, *words):
    """Type a command in the project."""
    environ = {**os.environ, **settings, "PYTHONPATH": str(project)}
    return subprocess.run(
        [sys.executable, "-m", "sluice", *words], cwd=project, env=environ, capture_output=True, text=True, check=False
    )


RETURNS, KILLS = 200, 20


@pytest.mark.ci("it kills the host 20 times at the locks of Azure")
@pytest.mark.timeout(1800)
def test_each_return_is_answered_once_however_often_the_host_is_killed(project):
    """Doubled, late and lost messages, and a host that is killed in the midst; one that is wrong is parked and replayed."""
    dice = random.Random(28)
    options = StackOptions(app=project, instances=2, settings=SETTINGS)
    with running(options) as stack, Connections.parse(stack.settings) as connections:
        host = stack.host
        names = [f"return-{number:03}" for number in range(RETURNS)]
        queue = connections.queues.get_queue_client("returns")
        # One that nobody can read, and an answer that comes before its return was sent.
        queue.send_message('{"return": "return-000", "kind": "sent"}')
        queue.send_message(message_of("return-early", "fetched", 1))
        with Outside(connections, dice) as outside:
            outside.lost = {"return-early", *dice.sample(names, RETURNS // 10)}
            try:
                for part in range(KILLS):
                    for name in names[part::KILLS]:
                        for _ in range(dice.choice((1, 2))):
                            queue.send_message(message_of(name, "send"))
                    time.sleep(dice.uniform(0, 3))
                    kill(host)
                    host = start_host(options, stack.settings)
                await_parked(project, stack.settings, connections, {"no_return": 1, "not_asked": 1})
                queue.send_message(message_of("return-early", "send"))
                until(lambda: ("return-early", 1) in outside.asked)
                check_seen(project, stack.settings, host, "return-early")
                replayed = sluice(
                    project, stack.settings, "parked", "replay", "--reason=not_asked", "--by=dana", "--yes"
                )
                assert replayed.returncode == 0, replayed.stdout + replayed.stderr
                # A message that a host held when it was killed comes again after its lease of ten minutes.
                left = time.monotonic() + 1500
                while len(outside.ends()) <= RETURNS:
                    assert outside.problems == []
                    assert time.monotonic() < left, sorted(set(names) - outside.ends().keys())
                    time.sleep(1)
                assert outside.ends() == {name: ["fetched"] for name in (*names, "return-early")}
                # The carriers never answered the first question of these.
                assert {(name, 2) for name in outside.lost - {"return-early"}} <= outside.asked.keys()
                assert ("return-early", 2) not in outside.asked
                assert parked(project, stack.settings) == {"no_return": 1}
                shown = sluice(project, stack.settings, "returns", "show", names[0])
                assert f"{names[0]} is fetched: carrier_asked" in shown.stdout, shown.stderr
            finally:
                host.stop()


def message_of(name, kind, generation=0):
    """Return a message to a return."""
    return json.dumps({"return": name, "kind": kind, "generation": generation})


def parked(project, settings):
    """Return the number of parked messages by their reason."""
    listed = sluice(project, settings, "parked", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    return {group["reason"]: group["entries"] for group in json.loads(listed.stdout)["groups"]}


def await_parked(project, settings, connections, expected):
    """Wait until these are parked, by the table: each run of the command is a process. Then the command lists them."""
    table = Stores(connections).parked_table
    until(lambda: Counter(entry.reason for entry in table.entries()) == expected)
    assert parked(project, settings) == expected


def check_seen(project, settings, host, name):
    """The command and the console show a return that waits, and the console the messages that are parked."""
    listed = sluice(project, settings, "returns", "list")
    assert f"{name} waits until " in listed.stdout, listed.stderr
    reader = Browser(host, describe("Reader"))
    assert f"<td>{name}</td>" in reader.ask("/api/console/returns")[2]
    assert "not_asked" in reader.ask("/api/console/parked")[2]


def read_one(receiver):
    """Receive one message: the test sent it, or waits for it."""
    found = []
    until(lambda: found.extend(receiver.receive_messages(1, max_wait_time=1)) or found)
    return found[0]


@pytest.mark.ci("it starts a host three times, and waits for two replays")
def test_what_the_host_or_the_bus_gave_up_is_parked_listed_and_replayed(project):
    """A message of the poison queue, and dead letters of answers and of commands, each with its reason; then the return ends."""
    settings = SETTINGS | {"SLUICE_RETURNS_MINUTES": "60"}
    options = StackOptions(app=project, instances=1, settings=settings)
    with running(options) as stack, Connections.parse(stack.settings) as connections:
        # Nothing listens, so that the bus can give up an answer.
        stack.host.stop()
        connections.queues.get_queue_client("returns-poison").send_message(message_of("r1", "send"))
        drain_poison(stack.settings, connections)
        assert parked(project, stack.settings) == {"delivered_too_often": 1}
        with connections.bus_client() as bus:
            host = start_host(options, stack.settings)
            try:
                replay(project, stack.settings, "delivered_too_often")
                with bus.get_queue_receiver("returns-commands") as carrier:
                    first = read_one(carrier)
                    carrier.dead_letter_message(first, reason="TooHeavy")
                await_parked(project, stack.settings, connections, {"dead_lettered": 1})
                # A carrier that gives it up again has it parked again; the second replay is the last one.
                for is_given_up_again in (True, False):
                    replay(project, stack.settings, "dead_lettered")
                    assert parked(project, stack.settings) == {}
                    with bus.get_queue_receiver("returns-commands") as carrier:
                        again = read_one(carrier)
                        assert decode_commands(b"".join(again.body)) == decode_commands(b"".join(first.body))
                        if not is_given_up_again:
                            carrier.complete_message(again)
                            continue
                        carrier.dead_letter_message(again, reason="TooHeavy")
                    await_parked(project, stack.settings, connections, {"dead_lettered": 1})
            finally:
                host.stop()
            with bus.get_queue_sender("returns-answers") as sender:
                sender.send_messages(ServiceBusMessage(message_of("r1", "fetched", 1)))
            with bus.get_queue_receiver("returns-answers") as receiver:
                receiver.dead_letter_message(read_one(receiver), reason="MaxDeliveryCountExceeded")
        host = start_host(options, stack.settings)
        try:
            await_parked(project, stack.settings, connections, {"dead_lettered": 1})
            replay(project, stack.settings, "dead_lettered")
            assert parked(project, stack.settings) == {}
            assert "r1 is fetched: " in sluice(project, stack.settings, "returns", "show", "r1").stdout
        finally:
            host.stop()


def replay(project, settings, reason):
    """Replay what was parked for a reason, as a person types it."""
    done = sluice(project, settings, "parked", "replay", f"--reason={reason}", "--by=dana", "--yes")
    assert done.returncode == 0, done.stdout + done.stderr


def drain_poison(settings, connections):
    """Run the app's tick at a quarter of an hour."""
    clock = HandClock()
    clock.moment = datetime.now(UTC).replace(minute=0)
    parsed = Settings.parse(settings)
    workloads = Workloads.load(parsed.workloads, settings)
    with App(connections, parsed, workloads, stores=Stores(connections, clock=clock)) as app:
        app.tick()


@pytest.mark.ci("it starts a whole stack as a person does")
def test_a_stranger_types_what_the_page_says(project):
    """In a project of their own: the line, `make up`, a message; the return waits, and its answer ends it."""
    page = (ROOT / "docs" / "processes.md").read_text()
    name, line = re.search(r"`(SLUICE_CAPABILITIES)=(\S+)`", page).groups()
    (block,) = [one for one in blocks("docs/processes.md") if "sluice returns" in one]
    activate, put, show, answer, show_again = block.splitlines()
    assert activate == ACTIVATE
    file = project / "own" / "settings.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), name: line}))
    (project / ".venv").symlink_to(Path(sys.executable).parent.parent)
    (project / ".stack").mkdir()
    for part in (ROOT / ".stack").iterdir():
        if part.name not in {"up", "logs"}:
            (project / ".stack" / part.name).symlink_to(part)
    kept = {key: text for key, text in os.environ.items() if not key.startswith(("SLUICE", "Sluice"))}
    # A person's environment has the project's own packages; this one has those of the repository.
    environ = {**kept, "PYTHONPATH": str(project)}

    def types(words):
        script = f"{ACTIVATE}\n{words}"
        return subprocess.run(
            ["bash", "-c", script], cwd=project, env=environ, capture_output=True, text=True, check=False, timeout=LIMIT
        )

    with (project.parent / "up.log").open("w") as log:
        up = subprocess.Popen(
            ["make", "up", "ARGS=--port 0"], cwd=project, env=environ, stdout=log, stderr=log, start_new_session=True
        )
        try:
            said = project / ".stack" / "up" / "local.settings.json"
            until(lambda: said.exists() or up.poll() is not None, pause=0.5)
            assert up.poll() is None, Path(log.name).read_text()
            until(lambda: said.read_text().endswith("}"))
            assert types(put).returncode == 0
            until(lambda: "r1 is waiting: carrier_asked" in types(show).stdout, pause=1)
            assert types(answer).returncode == 0
            until(lambda: "r1 is fetched: " in types(show_again).stdout, pause=1)
        finally:
            os.killpg(up.pid, signal.SIGINT)
            up.wait(timeout=LIMIT)
