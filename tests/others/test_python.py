"""The broker, used by libraries that others wrote for Python on top of Azure's: Celery's transport, FastStream, taskiq."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from servicebus_local.certificates import AUTHORITY
from servicebus_local.entities import Namespace, Queue
from servicebus_local.launcher import Broker

from tests import waiting
from tools.local.paths import LIBRARIES, STAMP, venv_python

HERE = Path(__file__).parent
MESSAGES = 1000
NAME = "local.servicebus.windows.net"

pytestmark = pytest.mark.skipif(
    not (LIBRARIES / STAMP).exists(), reason="others' Python libraries are not installed: `make others` does it"
)


def _run(program, *arguments, **more):
    """Run one of the programs on its own packages, and return what it prints at its end."""
    command = [str(venv_python(LIBRARIES)), str(HERE / program), *map(str, arguments)]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, env=environ | more, capture_output=True, text=True, timeout=waiting.LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def bus():
    """A broker with a queue for each library that makes none."""
    with Broker.start(Namespace((Queue("faststream"), Queue("taskiq")))) as running:
        yield running


def test_kombu_puts_and_takes(tmp_path):
    """It declares its queue twice, by two kinds of answers, takes its messages in order, counts them and removes it."""
    with Broker.start(Namespace(), tls=tmp_path, tls_name=NAME) as secure:
        authority = str(tmp_path / AUTHORITY)
        found = _run("with_kombu.py", NAME, secure.port, authority, MESSAGES, REQUESTS_CA_BUNDLE=authority)
    assert found == {"taken": list(range(MESSAGES)), "left": 0}


def test_faststream_publishes_and_takes(bus):
    """Each message comes, in order."""
    found = _run("with_faststream.py", bus.connection_string, "faststream", MESSAGES)
    assert found["taken"] == list(range(MESSAGES))


def test_taskiq_sends_and_runs(bus):
    """Each task runs."""
    found = _run("with_taskiq.py", bus.connection_string, "taskiq", MESSAGES)
    assert sorted(set(found["taken"])) == list(range(MESSAGES))
