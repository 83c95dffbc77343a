"""Proves that a stranger's first minutes work: a fresh clone, an empty HOME, no Node on the PATH, no step by hand."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.local.errors import StackError
from tools.local.paths import ROOT

#: What the clone must not find; it brings its own.
HIDDEN = {"node", "nodejs", "npm", "npx", "azurite", "func"}
#: Variables of this process by which the clone could use installed parts of this machine.
DROPPED = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}


def run(targets: list[str]) -> int:
    """Clone what is committed, run each make target there, and report the seconds of each."""
    with tempfile.TemporaryDirectory(prefix="sluice-clone-") as folder:
        clone, home, programs = (Path(folder) / name for name in ("clone", "home", "bin"))
        home.mkdir()
        _link_programs(programs)
        _make("git clone", ["git", "clone", "--quiet", str(ROOT), str(clone)], Path(folder), dict(os.environ))
        kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
        for target in targets:
            _make(f"make {target}", ["make", target], clone, {**kept, "HOME": str(home), "PATH": str(programs)})
    return 0


def _link_programs(folder: Path) -> None:
    """Make a PATH of one folder that has every program of this one's, without those to be hidden."""
    folder.mkdir()
    (folder / "python3").symlink_to(Path(sys.executable).resolve())
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            if program.name not in HIDDEN and not program.name.startswith("python") and not link.exists():
                link.symlink_to(program)


def _make(what: str, command: list[str], cwd: Path, environment: dict[str, str]) -> None:
    began = time.monotonic()
    done = subprocess.run(command, cwd=cwd, env=environment, check=False)
    print(
        f"sluice verify-clone: {what}: exit status {done.returncode} after {time.monotonic() - began:.0f} s", flush=True
    )
    if done.returncode:
        raise StackError(f"`{what}` failed in a fresh clone: its output is above")
