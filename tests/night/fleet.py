"""Who works beside the two instances: an instance of the last release for a while, and `sluice worker` on a machine."""

import os
import shutil
import signal
import subprocess
import zipfile
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pytest
from functions_local_host.launcher import Host

from tests.console.test_server import SLUICE
from tests.night.spent import cpu_of
from tests.own_returns import make_project
from tools.local.paths import ROOT

#: The last release, as a project that a person has of it.
RELEASE = "0.4.0"
WHEEL = ROOT / "tests" / "versions" / f"sluice-{RELEASE}-py3-none-any.whl"
WORK = Path("tests") / "night" / "workload.py"


def _add_work(folder):
    (folder / WORK).parent.mkdir(parents=True)
    shutil.copy(ROOT / WORK, folder / WORK)


@contextmanager
def project_of_today(folder):
    """Make a project of this release with the work of the night and a process of its own; this process imports it, too."""
    with pytest.MonkeyPatch.context() as patch:
        make_project(folder, patch)
        _add_work(folder)
        yield folder


@contextmanager
def last_release(folder, settings):
    """Run an instance of the last release on the same storage and bus, until it is deployed over."""
    made = Path(folder) / "before"
    with zipfile.ZipFile(WHEEL) as packed, zipfile.ZipFile(BytesIO(packed.read("sluice/project.zip"))) as project:
        project.extractall(made)
    _add_work(made)
    # The process of one's own came later.
    with Host.start(made, settings | {"SLUICE_CAPABILITIES": "registration"}) as host:
        yield host


class Worker:
    """`sluice worker`, which its machine starts again whenever it ends. A context manager that ends it."""

    def __init__(self, project, settings, log):
        self._project, self._settings, self._log = project, settings, log
        #: Seconds of CPU of those that were killed.
        self._cpu, self.process = 0.0, None

    def __enter__(self):
        self._start()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    @property
    def cpu(self):
        """Seconds of CPU of all of them, but for the last moments of those that were killed."""
        return self._cpu + cpu_of(self.process.pid)

    def kill(self):
        """End it by SIGKILL, and start it again."""
        self._cpu = self.cpu
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._start()

    def _start(self):
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [SLUICE, "worker"],
                cwd=self._project,
                env={**os.environ, **self._settings, "PYTHONPATH": str(self._project)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
