"""The page for strangers. `tests/release/test_packages.py` runs its example from the wheel, with nothing else of this repository."""

import re
import subprocess
import sys
from pathlib import Path

NAME, PAGE = "functions_local_host", Path(__file__).resolve().parents[2] / "README.md"


def test_the_commands_options_exist():
    """Each option that the page names is one of the command's."""
    command = [sys.executable, "-m", NAME, "--help"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    page = PAGE.read_text()
    named = set(re.findall(rf"{NAME}.* (--[a-z-]+)", page))
    assert named
    assert named <= set(re.findall(r"(--[a-z-]+)", said))
