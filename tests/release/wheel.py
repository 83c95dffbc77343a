"""Builds the wheel of a folder of the project, and bare environments to install it into. No registry is asked."""

import os
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from tests.waiting import LIMIT
from tools.local.paths import ROOT, venv_python

#: What a build reads.
SOURCES = (
    "sluice",
    "shared",
    "capabilities",
    "tools/__init__.py",
    "tools/planning",
    "tools/conformance",
    "tools/cli",
    "tools/project",
    ".gitignore",
    "tools/local/wheel.py",
    "host.json",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
_BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def copy_sources(folder, root=ROOT):
    """Copy what a build reads, and return the folder: a build writes beside it."""
    for name in SOURCES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(root / name, folder / name)
    return folder


def build(folder, into, *, at=None):
    """Build the wheel of a folder, with a time `at` in its files, and return it."""
    into.mkdir(parents=True, exist_ok=True)
    stamp = {} if at is None else {"SOURCE_DATE_EPOCH": str(at)}
    # As pip builds: without the folder on the path.
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")} | stamp
    done = subprocess.run(
        [sys.executable, "-P", "-c", _BUILD, str(into)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the wheel of {folder} was not built: {done.stderr[-2000:]}")
    (wheel,) = into.glob("*.whl")
    return wheel


class Bare:
    """An environment with a wheel, the packages that it asks for and those named `beside` it, and nothing else."""

    def __init__(self, folder, wheel, *extras, beside=()):
        venv.EnvBuilder(symlinks=True).create(folder)
        self.python = venv_python(folder)
        self.sluice = self.python.with_name("sluice")
        install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps"]
        subprocess.run([*install, "--python", str(self.python), str(wheel)], check=True)
        (self.site,) = folder.glob("lib/python*/site-packages")
        (found,) = metadata.distributions(name=wheel.name.partition("-")[0], path=[str(self.site)])
        needed = wanted(found, extras)
        for name in needed.union(beside, *(wanted(metadata.distribution(name), ()) for name in beside)):
            _link(metadata.distribution(name), self.site)

    def run(self, *command, folder, **settings):
        """Run a command in a folder, with these settings alone, and return how it ended."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **settings}
        return subprocess.run(
            [str(part) for part in command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )

    def check(self, *command, folder, **settings):
        """Run a command that must succeed, and return what it printed."""
        done = self.run(*command, folder=folder, **settings)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout


def wanted(distribution, extras, seen=None):
    """Return the names of the packages that a distribution asks for, and those ask for, as they are installed here."""
    seen = set() if seen is None else seen
    for text in distribution.requires or ():
        one = Requirement(text)
        if one.marker is not None and not any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        if one.name == "sluice":
            wanted(distribution, one.extras, seen)
        elif one.name not in seen:
            seen.add(one.name)
            wanted(metadata.distribution(one.name), one.extras, seen)
    return seen


def _link(distribution, site):
    for file in distribution.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            place = site / file
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                place.symlink_to(Path(distribution.locate_file(file)).resolve())
