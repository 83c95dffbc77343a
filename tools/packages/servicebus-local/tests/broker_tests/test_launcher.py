"""The broker as a command: it starts, says where it is, stops, and explains why it does not."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from servicebus_local.entities import Namespace, SqlFilter as Sql, Subscription, Topic
from servicebus_local.errors import StartError
from servicebus_local.launcher import Broker

_ROOT = Path(__file__).resolve().parents[5]
_COMMAND = [sys.executable, "-m", "servicebus_local"]


def like():
    """A bus with a filter that the broker does not know."""
    return Namespace((), (Topic("t", (Subscription("s", (Sql("kind LIKE 'a%'"),)),)),))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_prints_one_line_and_stops_on_a_signal(number):
    """The line says that it is a stand-in and holds the connection string; the end is clean."""
    with subprocess.Popen(_COMMAND, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        line = process.stdout.readline()
        os.kill(process.pid, number)
        rest = process.stdout.read()
    assert "stand-in" in line
    assert "Endpoint=sb://127.0.0.1:" in line
    assert "UseDevelopmentEmulator=true;" in line
    assert (rest, process.returncode) == ("", 0)


def test_a_broker_that_a_launcher_started_ends_with_it():
    """A launcher that was killed closes its end of the pipe, and can do no more."""
    with Broker.start(Namespace(())) as broker:
        broker.process.stdin.close()
        assert broker.process.wait(60) == 0


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="only Linux lists its sockets in a file")
def test_the_broker_listens_on_the_loopback_interface_only(broker):
    """Another machine cannot reach it."""
    listening = [line.split()[1:4] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    places = {place for place, _, state in listening if state == "0A" and int(place[-4:], 16) == broker.port}
    assert {place[:8] for place in places} == {"0100007F"}


def test_a_taken_port_is_one_line_with_the_fix():
    """No traceback, and status 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run([*_COMMAND, "--port", port], cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"cannot listen on 127.0.0.1:{port}: the port is in use; stop what uses it, or take a free one: --port 0"
    ]


@pytest.mark.parametrize(
    ("content", "named"),
    [(None, "No such file"), ("{}", "holds no entities as expected: KeyError: 'bus'"), ("[", "JSONDecodeError")],
)
def test_a_file_without_entities_is_refused_by_name(content, named, tmp_path):
    """The launcher's error carries the broker's own last words."""
    file = tmp_path / "mine.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(StartError, match=f"mine.json.*{named}"):
        Broker.start(file)


def test_a_filter_that_the_broker_lacks_is_refused_by_name():
    """It would pass or hold messages that Azure does not."""
    with pytest.raises(StartError, match="LIKE"):
        Broker.start(like())


def test_the_emulator_s_config_is_printed():
    """As JSON, and nothing is served."""
    done = subprocess.run([*_COMMAND, "--emulator-config"], cwd=_ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["UserConfig"]["Namespaces"][0]["Name"] == "sbemulatorns"


def test_a_stopped_broker_is_gone():
    """Stopping twice is harmless, and the port is free again."""
    broker = Broker.start()
    broker.stop()
    broker.stop()
    with socket.create_server(("127.0.0.1", broker.port)):
        assert broker.pid is None
