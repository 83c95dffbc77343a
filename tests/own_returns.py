"""The process `own/returns` of docs/processes.md, as its blocks stand there."""

import re
import shutil
import sys
from importlib import import_module

from tools.local.paths import ROOT

#: The file of each block, in the order of the page.
FILES = ("process.py", "test_returns.py", "__init__.py", "flows.py", "command.py", "pages.py")

#: What a person's project does not have.
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".stack", "tests", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"
)


def write_returns(own):
    """Write the files of the page into a folder `own`."""
    found = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "processes.md").read_text(), re.DOTALL | re.MULTILINE)
    (own / "returns").mkdir(parents=True)
    for name, text in zip(FILES, found, strict=True):
        (own / "returns" / name).write_text(text)


def add_returns(own, monkeypatch):
    """Write them, and let this process import them beside the project's own code."""
    write_returns(own)
    monkeypatch.setattr(import_module("own"), "__path__", [*import_module("own").__path__, str(own)])
    for name in [one for one in sys.modules if one.startswith("own.returns")]:
        monkeypatch.delitem(sys.modules, name)


def make_project(folder, monkeypatch):
    """Make a project with the six files of the page. This process imports them, too."""
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT)
    add_returns(folder / "own", monkeypatch)
