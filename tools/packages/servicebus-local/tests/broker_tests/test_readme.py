"""The page for strangers: its example runs in a copy of the folder, with nothing else of this repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def test_the_example_runs_in_a_copy_of_the_folder(tmp_path):
    """A queue, a topic with a filter, a message there and back."""
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    (example,) = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("hello\n", 0), done.stderr


def test_the_commands_options_exist():
    """Each option that the page names is one of the command's."""
    command = [sys.executable, "-m", PACKAGE.name, "--help"]
    said = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"(--[a-z-]+)", (PACKAGE / "README.md").read_text()))
    assert named <= set(re.findall(r"(--[a-z-]+)", said))
