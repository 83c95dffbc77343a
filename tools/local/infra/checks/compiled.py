"""Every Bicep file parses. If the Azure CLI is on PATH, its compiler has no error and no warning.

Types and property names are the compiler's part: `.github/workflows/check.yml` runs it on every push.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tools.local.infra.bicep import BicepError, read
from tools.local.infra.finding import Finding
from tools.local.infra.project import Project


def check(project: Project) -> Iterator[Finding]:
    """Yield each file that does not parse. If all do, yield each complaint of the compiler."""
    broken = [
        finding
        for file in (*project.bicep_files(), project.root / "own" / "infra" / "main.bicep")
        for finding in _syntax(file)
    ]
    yield from broken
    if not broken and (azure_cli := shutil.which("az")):
        yield from _compile(azure_cli, project.main)


def _syntax(file: Path) -> Iterator[Finding]:
    try:
        read(file)
    except BicepError as error:
        yield Finding("infra", str(error))


def _compile(azure_cli: str, main: Path) -> Iterator[Finding]:
    done = subprocess.run(
        [azure_cli, "bicep", "build", "--file", str(main), "--stdout"], capture_output=True, text=True, check=False
    )
    for line in done.stderr.splitlines():
        if "Error" in line or "Warning" in line:
            yield Finding("az bicep build", line.strip())
    if done.returncode == 0 and not json.loads(done.stdout).get("resources"):
        yield Finding("az bicep build", "made a template without resources")
