"""The `sluice` command as a person runs it: a process of its own, with nothing but the given settings."""

import os
import sys
from pathlib import Path

import pytest

from tests import command
from tools.local.paths import ROOT

SLUICE = Path(sys.executable).parent / "sluice"


@pytest.fixture
def sluice(stack_settings, tmp_path, tmp_path_factory):
    """Run the command against the run's stack, in an empty folder."""

    def run(*arguments, settings=None):
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        # The command of this working tree, also where the environment has another one's installed.
        environment = kept | {"PYTHONPATH": str(ROOT)} | (stack_settings if settings is None else settings)
        return command.run(arguments, environment, tmp_path, tmp_path_factory.mktemp("printed"))

    return run
