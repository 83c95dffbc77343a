"""The package as azd makes it: the project's folder without the files that .funcignore names."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pathspec

from local.paths import ROOT

#: azd always leaves these out, with any .funcignore.
ALWAYS_OUT = (".azure/", ".funcignore", "local.settings.json")


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
