"""A proof against stand-ins of az, azd, the `sluice` command and pytest, each a program on the path.

Starting a program takes a hundred times what its answer does. So most tests hand its words to the stand-in at once.
"""

import json
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.local.prove.__main__ import conclude
from tools.local.prove.rehearsal import Cloud, Created
from tools.local.prove.shell import Done, Shell
from tools.local.prove.site import Site

NAME = "sluice-prove-test"
JOB = {"state": "complete", "accepted": {"items": 1}, "rejected": {"items": 0}}
#: What the programs of a right installation answer, by the beginning of their words.
RIGHT = {
    ("sluice", "doctor", "--json"): {"findings": [{"kind": "queue", "name": "one", "state": "ok", "problem": ""}]},
    ("sluice", "doctor", "--deep"): {"ok": True, "left": [], "properties": [{"property": "a.b", "state": "holds"}]},
    ("sluice", "submit"): {},
    ("sluice", "gate"): {},
    ("sluice", "jobs", "watch"): JOB,
}


@contextmanager
def nothing():
    """What a deployment makes here: addresses, and no process."""
    yield Created({"AZURE_FUNCTION_APP_NAME": "func", "SERVICE_SLUICE_BASE_URL": "http://there"}, dict)


class FaultyCloud(Cloud):
    """Stand-ins of which a call can be made to fail. A fault is a function of the words that returns how the call ended."""

    def __init__(self, folder):
        super().__init__(folder, nothing, more=("sluice", "python"))
        self.faults = {}
        self.calls = []

    def answer(self, words):
        """Answer by the fault that is meant for these words, or rightly."""
        self.calls.append(words)
        for beginning, fault in self.faults.items():
            if words[: len(beginning)] == list(beginning) and (done := fault(words)) is not None:
                return done
        if words[0] == "python":
            return Done(0, "8 passed in 1.00s\n", "")
        for beginning, document in RIGHT.items():
            if words[: len(beginning)] == list(beginning):
                return Done(0, json.dumps(document), "")
        return super().answer(words)

    def is_called(self, *words):
        """Whether a program was called with these first words."""
        return any(one[: len(words)] == list(words) for one in self.calls)


class Asking(Shell):
    """A shell that asks the stand-ins without their programs. Every other program is started."""

    cloud = None

    def _run(self, words, seconds, settings):
        program = Path(words[0])
        if program.parent == self.cloud.programs:
            return self.cloud._answer([program.name, *words[1:]])
        return super()._run(words, seconds, settings)


def fail(_):
    """End a program as a fault does."""
    return Done(1, "", "ERROR: broken on purpose")


@pytest.fixture
def cloud(tmp_path):
    """The stand-ins."""
    folder = tmp_path / "cloud"
    folder.mkdir()
    with FaultyCloud(folder) as running:
        yield running


@pytest.fixture
def stop():
    """What a signal sets."""
    return threading.Event()


@pytest.fixture
def runs():
    """The kind of shell."""
    return Asking


@pytest.fixture
def site(cloud, stop, tmp_path, runs):
    """An installation that is not there yet."""
    shell = runs([str(cloud.programs)], tmp_path, tmp_path / "log", stop)
    shell.cloud = cloud
    return Site(NAME, "westeurope", shell, cloud.kept, tmp_path, pause=0.0)


@pytest.fixture
def concluded(site, stop, tmp_path):
    """Run a proof as the command does, with its page in the test's folder. Return the status."""
    return lambda: conclude(site, stop, tmp_path / "page.md", is_rehearsal=True)
