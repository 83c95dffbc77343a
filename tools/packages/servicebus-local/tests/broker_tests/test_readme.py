"""The page for strangers. `tests/release/test_packages.py` runs its example from the wheel, with nothing else of this repository."""

import re
import subprocess
import sys
from pathlib import Path

NAME, PAGE = "servicebus_local", Path(__file__).resolve().parents[2] / "README.md"


def test_the_commands_options_exist():
    """Each option that the page names is one of the command's."""
    command = [sys.executable, "-m", NAME, "--help"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    named = set(re.findall(r"(--[a-z-]+)", PAGE.read_text()))
    assert named <= set(re.findall(r"(--[a-z-]+)", said))
