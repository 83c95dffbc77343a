"""The process of docs/processes.md, from the page to its end: killed, parked, replayed, and seen."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from threading import Event, Thread

import pytest
from azure.servicebus import ServiceBusMessage

from shared.azure import Connections
from shared.processes import decode_commands, decode_events
from tests.console.principals import describe
from tests.e2e.test_console import Browser
from tests.own_returns import add_returns
from tests.waiting import until
from tools.local.paths import ROOT
from tools.local.stack import StackOptions, running, start_host

ENDS = {"fetched", "given_up"}
SETTINGS = {
    "SLUICE_CAPABILITIES": "console,own.returns:RETURNS",
    "SLUICE_RETURNS_MINUTES": "3",
    "WEBSITE_AUTH_ENABLED": "True",
}
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".stack", "tests", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"
)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with the six files of the page, in a folder of its own."""
    folder = tmp_path / "project"
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT)
    add_returns(folder / "own", monkeypatch)
    return folder


class Outside:
    """The carriers, and the shop that hears what becomes of its returns."""

    def __init__(self, connections, dice):
        self.connections, self.dice = connections, dice
        self.lost, self.asked, self.heard = set(), Counter(), {}
        self._ended = Event()
        self._threads = [Thread(target=self._fetch), Thread(target=self._hear)]

    def __enter__(self):
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        for one in self._threads:
            one.join()

    def _fetch(self):
        """Answer each command: once, twice, late, or, of some at the first carrier, never."""
        with (
            self.connections.bus_client() as bus,
            bus.get_queue_receiver("returns-commands") as receiver,
            bus.get_queue_sender("returns-answers") as sender,
        ):
            later = []
            while not self._ended.is_set():
                for message in receiver.receive_messages(50, max_wait_time=1):
                    for command in decode_commands(b"".join(message.body)):
                        name = command.body["return"]
                        self.asked[name, command.generation] += 1
                        if command.generation == 1 and name in self.lost:
                            continue
                        fields = {"return": name, "kind": "fetched", "generation": command.generation}
                        answer = json.dumps(fields)
                        later += [answer] * self.dice.choice((0, 1))
                        sender.send_messages(ServiceBusMessage(answer))
                    receiver.complete_message(message)
                for answer in later[:5]:
                    sender.send_messages(ServiceBusMessage(answer))
                del later[:5]

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


CASES = [
    pytest.param(10, 1, marks=pytest.mark.ci("it waits three minutes for a carrier that never answers")),
    pytest.param(200, 20, marks=pytest.mark.ci("it kills the host 20 times at the locks of Azure")),
]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("number", "kills"), CASES)
def test_each_return_is_answered_once_however_often_the_host_is_killed(project, number, kills):
    """Doubled, late and lost messages, and a host that is killed in the midst; one that is wrong is parked and replayed."""
    dice = random.Random(28)
    options = StackOptions(app=project, instances=2, settings=SETTINGS)
    with running(options) as stack, Connections.parse(stack.settings) as connections:
        host = stack.host
        names = [f"return-{number:03}" for number in range(number)]
        queue = connections.queues.get_queue_client("returns")
        # One that nobody can read, and an answer that comes before its return was sent.
        queue.send_message('{"return": "return-000", "kind": "sent"}')
        queue.send_message(message_of("return-early", "fetched", 1))
        with Outside(connections, dice) as outside:
            outside.lost = {"return-early", *dice.sample(names, number // 10)}
            try:
                for part in range(kills):
                    for name in names[part::kills]:
                        for _ in range(dice.choice((1, 2))):
                            queue.send_message(message_of(name, "send"))
                    time.sleep(dice.uniform(0, 3))
                    kill(host)
                    host = start_host(options, stack.settings)
                until(lambda: parked(project, stack.settings) == {"no_return": 1, "not_asked": 1}, pause=2)
                queue.send_message(message_of("return-early", "send"))
                until(lambda: ("return-early", 1) in outside.asked)
                check_seen(project, stack.settings, host, "return-early")
                replayed = sluice(
                    project, stack.settings, "parked", "replay", "--reason=not_asked", "--by=dana", "--yes"
                )
                assert replayed.returncode == 0, replayed.stdout + replayed.stderr
                # A message that a host held when it was killed comes again after its lease of ten minutes.
                left = time.monotonic() + 1500
                while len(outside.ends()) <= number:
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


def check_seen(project, settings, host, name):
    """The command and the console show a return that waits, and the console the messages that are parked."""
    listed = sluice(project, settings, "returns", "list")
    assert f"{name} waits until " in listed.stdout, listed.stderr
    reader = Browser(host, describe("Reader"))
    assert f"<td>{name}</td>" in reader.ask("/api/console/returns")[2]
    assert "not_asked" in reader.ask("/api/console/parked")[2]
