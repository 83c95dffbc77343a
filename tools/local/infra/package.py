"""The package as azd makes it: the project's folder without the files that .funcignore names. And the functions in it."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pathspec

from tools.local.errors import StackError
from tools.local.paths import ROOT

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


def functions(folder: Path, python: Path, settings: Mapping[str, str]) -> list[str]:
    """Return the functions that the worker finds in a package with these settings, and with nothing else on its path."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "SLUICE", "Sluice"))}
    done = subprocess.run(
        [str(python), "-B", "-c", _INDEX],
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
