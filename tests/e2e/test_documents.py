"""What README and docs say to type, typed as it stands, against the running app, in a terminal as the pages want it."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from shared.app import Stores
from shared.azure.connections import Connections
from shared.errors import RefusedError
from shared.messages import Delivery
from shared.parked.entry import ACCEPT
from tests.waiting import LIMIT, until
from tools.local.paths import ACTIVATE, ROOT
from tools.local.stack import StackOptions, running

VENV = Path(sys.executable).parent.parent
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(name):
    """Return the blocks of shell of a document."""
    return BLOCK.findall((ROOT / name).read_text())


@pytest.fixture(scope="module")
def stack_settings(host_kind, worker):
    """The settings of a stack of its own: the pages list and replay everything that is there."""
    with running(StackOptions(host=host_kind, worker=worker)) as stack:
        yield stack.settings


@pytest.fixture(scope="module")
def typed(stack_settings, tmp_path_factory):
    """Type a script into a terminal that was prepared as the pages say; what asks is told yes."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / ".venv").symlink_to(VENV)
    path = [one for one in os.environ["PATH"].split(os.pathsep) if Path(one) != VENV / "bin"]
    environment = {**os.environ, **stack_settings, "PATH": os.pathsep.join(path)}

    def run(script):
        return subprocess.run(
            ["bash", "-e", "-c", f"{ACTIVATE}\n{script}"],
            # Each command that asks takes a whole buffer of them.
            input="y\n" * 100_000,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )

    return run


@pytest.fixture(scope="module")
def tutorial(typed):
    """The tutorial of docs/first-job.md, typed; the other pages go on with its job."""
    (script,) = blocks("docs/first-job.md")
    return typed(script)


@pytest.fixture
def parked(stack_settings):
    """Park a good submission twice, as if the host had given up on it, and return how it is named."""
    with Connections.parse(stack_settings) as connections:
        usage = {"account": "a", "plan": "basic", "quantity": "1"}
        job = f"gave-up-{time.monotonic_ns()}"
        body = json.dumps({"sluice": {"job": job, "items": [usage]}})
        why = RefusedError("delivered_too_often", "the host gave up", "replay it")
        delivery = Delivery(queue="submissions", message_id="m-1", body=body.encode(), count=1)
        stores = Stores(connections)
        entry = stores.parking.park(ACCEPT, delivery, why)
        # One more of its cause is above the bound at the door, as in a flood.
        stores.overflow.keep(replace(entry, key=f"{entry.key}-2"), body.encode())
    return {"JOB": entry.about, "KEY": entry.key, "FINGERPRINT": entry.fingerprint}


def test_the_tutorial_runs_as_it_stands(tutorial, typed):
    """Every command of it succeeds in order, and the job is complete with its one reject."""
    assert tutorial.returncode == 0, tutorial.stdout + tutorial.stderr
    job = json.loads(typed("sluice jobs show first --json").stdout)
    assert (job["state"], job["accepted"]["items"], job["rejected"]["items"]) == ("complete", 2, 1)


def test_the_tutorial_leaves_its_gate_closed(tutorial, typed):
    """So the job of the next night waits, as the page says, and does not start at once."""
    until(lambda: json.loads(typed("sluice gate status nightly --json").stdout)["state"] == "closed")
    typed("sluice submit usage.ndjson --job second --workload billing --gate nightly")
    until(lambda: json.loads(typed("sluice gate status nightly --json").stdout)["held"]["count"] == 1)


@pytest.mark.parametrize(
    "name", ["docs/cost.md", "docs/scaling.md", "docs/operating.md", "docs/parked.md", "docs/nights.md"]
)
def test_every_command_of_a_page_succeeds(name, tutorial, typed, parked):
    """Words in capitals stand for what was parked; everything else is typed as it stands."""
    for script in blocks(name):
        done = typed(re.sub(r"\b(JOB|KEY|FINGERPRINT)\b", lambda word: f"'{parked[word[0]]}'", script))
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
