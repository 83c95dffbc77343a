"""The package that azd uploads: the project's files without those that .funcignore names, the packages of the lock, and bytecode.

It is built here for the Python of the app: a remote build of Flex Consumption took another one (Azure/azure-dev #8538, 2026-06-05),
and refuses 3.14 (Azure/azure-functions-python-worker #1801, 2025-11-18).
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pathspec

from tools.local.errors import StackError
from tools.local.paths import ROOT

#: Where azure.yaml tells azd to find the package, below the project's folder.
UPLOAD = ".stack/upload"
#: Where the worker looks for packages.
SITE = ".python_packages/lib/site-packages"
LOCK = "tools/requirements-upload.txt"
#: That of Flex Consumption, and old enough for each wheel.
PLATFORM = "x86_64-manylinux_2_28"
#: azd drops bytecode where there is no file of this name (azure-dev, cli/azd/pkg/project/project_utils.go, read 2026-11-27).
_IGNORE_FILE = "# Nothing here stays behind: this file makes azd keep the bytecode.\n"
#: azd always leaves these out, with any .funcignore.
ALWAYS_OUT = (".azure/", ".funcignore", "local.settings.json")
#: Loads the app as the worker does, and prints the names of its functions.
_INDEX = """
import json, function_app
print(json.dumps(sorted(one.get_function_name() for one in function_app.app.get_functions())))
"""


def files(root: Path = ROOT) -> Iterator[Path]:
    """Yield every file of the package, relative to the folder."""
    ignored = pathspec.GitIgnoreSpec.from_lines([*(root / ".funcignore").read_text().splitlines(), *ALWAYS_OUT])
    for folder, folders, names in os.walk(root):
        here = Path(folder).relative_to(root)
        # What an ignored folder holds stays out, and need not be looked at: .venv has tens of thousands of files.
        folders[:] = sorted(name for name in folders if not ignored.match_file(f"{(here / name).as_posix()}/"))
        yield from (here / name for name in sorted(names) if not ignored.match_file((here / name).as_posix()))


def build(target: Path, root: Path = ROOT) -> Path:
    """Copy the package's files into a new folder and return it."""
    for file in files(root):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / file, target / file)
    return target


def build_upload(target: Path, version: str, root: Path = ROOT, python: str | None = None) -> Path:
    """Make the whole package anew for this version of Python. An interpreter of that version adds bytecode."""
    shutil.rmtree(target, ignore_errors=True)
    build(target, root)
    # Wheels alone: what is built from source would be built for this machine.
    wanted = ["--python-platform", PLATFORM, "--python-version", version, "--only-binary", ":all:", "--require-hashes"]
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", str(target / SITE)]
    _run([*uv, *wanted, "--requirement", str(root / LOCK)], "the packages for the upload cannot be installed")
    if python:
        # Not by the time of a file, which a zip changes: then each start would compile everything again.
        compile_all = ["-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash", str(target)]
        _run([python, *compile_all], "the package cannot be compiled")
    (target / ".funcignore").write_text(_IGNORE_FILE)
    return target


def _run(command: list[str], fault: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(f"{fault}: {' '.join((done.stderr or done.stdout).split())[-300:]}")


def functions(folder: Path, python: Sequence[str], settings: Mapping[str, str]) -> list[str]:
    """Return the functions that the worker finds in a package with these settings, and with nothing else on its path."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "SLUICE", "Sluice"))}
    done = subprocess.run(
        [*python, "-B", "-c", _INDEX],
        cwd=folder,
        env={**kept, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StackError(f"the app would not start in Azure: {(done.stderr.splitlines() or ['(no reason)'])[-1]}")
    found: list[str] = json.loads(done.stdout)
    return found
