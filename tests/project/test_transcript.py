"""The way of a person who begins with the wheel alone: a project, own code, its checks, its first job, a release more, and back.

Each step is typed as the page or the command says it. `-s` shows the times.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from shared import __version__
from tests.project.kit import committed, content
from tests.release.wheel import Bare, build
from tests.waiting import LIMIT
from tools.local.paths import STACK
from tools.project.files import MANIFEST, carried

NEXT = "0.99.0"
#: One workload more, with its test, as a person would write it on the first day.
REFUNDS = """\
from own.sales import Sales


class Refunds(Sales):
    name = "refunds"

    def map(self, sale, number):
        return -sale.units
"""
TEST = """\
from own.refunds import Refunds
from sluice.testing import run_lines


def test_units_are_taken_off():
    assert run_lines(Refunds(), [b'{"units":2}', b'{"units":3}'], 0).partial == -5
"""


def wheel_of(folder, version):
    """Return the wheel of the tree, of another version."""
    for name, one in carried(version).files.items():
        (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "tree" / name).write_bytes(one.content)
    said = folder / "tree" / "shared" / "__init__.py"
    said.write_text(said.read_text().replace(f'"{__version__}"', f'"{version}"'))
    (folder / "tree" / "docs" / "more.md").write_text(f"# New in {version}\n")
    return build(folder / "tree", folder / "wheel")


class Person:
    """Somebody at a terminal in a folder, with nothing but an empty home."""

    def __init__(self, folder):
        self.folder = folder
        kept = STACK / "kept"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            # What this folder has downloaded is not downloaded again.
            **{name: str(kept / tool) for name, tool in (("UV_CACHE_DIR", "uv"), ("PIP_CACHE_DIR", "pip"), ("npm_config_cache", "npm"))},
            **{name: text for name, text in os.environ.items() if name.lower().endswith("_proxy") or "INDEX" in name or "CERT" in name},
        }  # fmt: skip

    def types(self, *command, text=None):
        """Run a command to its end and return what it printed. It must succeed."""
        began = time.monotonic()
        shown = " ".join(map(str, command)) if text is None else text
        words = command if text is None else ("bash", "-e", "-c", text)
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=LIMIT
        )
        print(f"{time.monotonic() - began:6.1f} s  {shown.splitlines()[0]}")  # noqa: T201 - the transcript
        assert done.returncode == 0, f"{shown}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout


@pytest.mark.ci("installs a project, and starts a stack of its own")
def test_from_an_empty_folder_to_a_newer_release_and_back(tmp_path):
    """No step needs an edit outside of own/, and after the way back each file is as it was."""
    now, later = (
        Bare(tmp_path / version, wheel_of(tmp_path / f"of-{version}", version), "cli")
        for version in (__version__, NEXT)
    )
    person = Person(tmp_path)
    said = person.types(now.sluice, "new", "night-batch")
    person.folder = tmp_path / "night-batch"
    (person.folder / "own" / "refunds.py").write_text(REFUNDS)
    (person.folder / "own" / "tests" / "test_refunds.py").write_text(TEST)
    settings = person.folder / "own" / "settings.json"
    settings.write_text('{"SLUICE_WORKLOADS": "own.sales:Sales,own.refunds:Refunds"}\n')
    person.types("make", "setup")
    person.types("make", "check")
    assert "3 passed" in person.types("make", "test")
    assert "workloads own.sales:Sales,own.refunds:Refunds" in person.types("make", "deploy", "ARGS=--check")
    first_job(person, said)
    committed(person.folder)
    before = content_of(person.folder)
    (newer,) = (tmp_path / f"of-{NEXT}" / "wheel").glob("*.whl")
    assert f"{__version__} → {NEXT}" in person.types("make", "upgrade", f"TO={newer}")
    assert content_of(person.folder) == before
    person.types(later.sluice, "upgrade", "--write")
    after = content_of(person.folder)
    assert (json.loads(after[MANIFEST])["version"], after["docs/more.md"]) == (NEXT, f"# New in {NEXT}\n".encode())
    committed(person.folder, "upgraded")
    person.types("make", "check")
    (wheel,) = (tmp_path / f"of-{__version__}" / "wheel").glob("*.whl")
    person.types(later.sluice, "upgrade", "--write", "--release", wheel)
    assert content_of(person.folder) == before


def content_of(folder):
    """Return the files of a project without what was installed or made by a program."""
    made = re.compile(r"^\.venv/|__pycache__|\.egg-info/|_cache/")
    return {name: one for name, one in content(folder).items() if not made.search(name)}


def first_job(person, said):
    """Type what `sluice new` printed: one part stays in a terminal, and the other is typed beside it."""
    beside = said.partition("In another terminal")[2].splitlines()[1:-1]
    typed = "\n".join(line.strip() for line in beside)
    assert "    make up " in said
    # Its port may be taken by another stack of this machine.
    words = ["make", "up", "ARGS=--port 0"]
    with subprocess.Popen(words, cwd=person.folder, env=person.environment, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert any("Ctrl-C stops everything" in line for line in up.stdout)
            printed = person.types(text=typed)
        finally:
            up.send_signal(signal.SIGTERM)
            up.communicate(timeout=LIMIT)
    assert json.loads(printed.splitlines()[-1]) == {"units": 9}
    shutil.rmtree(Path(person.folder) / ".stack" / "up", ignore_errors=True)
