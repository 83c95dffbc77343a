"""Bicep against Azure's own description of its resources, by whatever is there that knows it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from local.infra import typed
from local.infra.bicep import BicepError, read
from local.infra.finding import Finding
from local.infra.project import Project, with_rooms
from local.paths import ROOT

#: A checker with Azure's type data that may lie beside the project.
BESIDE: Final = ROOT.parent / "shared" / "tools" / "check_bicep.py"


def check(project: Project) -> Iterator[Finding]:
    """Yield what does not parse, and what Azure does not know: types, properties, values."""
    files = project.bicep_files()
    broken = [finding for file in files for finding in _syntax(file)]
    yield from broken
    if broken:
        return
    if shutil.which("az"):
        yield from _compile(project.main)
    elif BESIDE.exists():
        yield from _by_types(files)
        for resource in project.deployed(
            isStorageLogged=True, alertEmail="a@b.example", rooms=with_rooms(), workQueues=2
        ).resources:
            yield from typed.misfits(resource)
    else:
        yield Finding("infra", "no Bicep compiler is here, so types and properties were not checked", is_skip=True)


def _syntax(file: Path) -> Iterator[Finding]:
    try:
        read(file)
    except BicepError as error:
        yield Finding("infra", str(error))


def _compile(main: Path) -> Iterator[Finding]:
    done = subprocess.run(
        [str(shutil.which("az")), "bicep", "build", "--file", str(main), "--stdout"],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stderr.splitlines():
        if "Error" in line or "Warning" in line:
            yield Finding("az bicep build", line.strip())
    if done.returncode == 0 and not json.loads(done.stdout).get("resources"):
        yield Finding("az bicep build", "made a template without resources")


def _by_types(files: list[Path]) -> Iterator[Finding]:
    done = subprocess.run([sys.executable, str(BESIDE), *map(str, files)], capture_output=True, text=True, check=False)
    *lines, last = [line for line in done.stdout.splitlines() if line] or [done.stderr.strip()]
    yield from (Finding("infra", line.rpartition("/")[2]) for line in lines)
    if not lines and done.returncode:
        yield Finding("infra", f"the type checker failed: {last}")
