"""The folder of a person's own code: the README's workload in it passes every check, and the app reads its settings."""

import json
import os
import subprocess
import sys

import pytest

from tools.local import readme
from tools.local.infra import package
from tools.local.paths import ROOT
from tools.local.stack import sample_values

AZURE = {"WEBSITE_INSTANCE_ID": "1", "WEBSITE_SITE_NAME": "func"}


@pytest.mark.parametrize("words", [("check",), ("format", "--check")])
def test_the_workload_of_the_readme_passes_the_rules_of_the_folder(words):
    """Whoever types it there sees no finding of rules that are Sluice's own."""
    command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", "own/mine.py", "-"]
    done = subprocess.run(command, cwd=ROOT, input=readme.workload(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_tests_and_rules_stay_at_home():
    """The package for Azure has the code, its data and its settings."""
    names = {file.as_posix() for file in package.files() if file.parts[0] == "own"}
    assert names == {"own/__init__.py", "own/sales.py", "own/settings.json"}


def loaded(folder, **environ):
    """Load the app of a folder as its worker does, and return all that it said."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("SLUICE", "Sluice", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-c", "import logging; logging.basicConfig(level=20); import function_app"],
        cwd=folder,
        env={**kept, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_app_runs_as_deployed_and_says_which_settings_are_not(tmp_path):
    """A code-only deployment brings its settings at once, but for those that have entities."""
    app = package.build(tmp_path / "app")
    said = {"SLUICE_WORKLOADS": "own.sales:Sales", "SLUICE_ROOMS": "team-a", "SLUICE_PERMIT_TASKS": "2"}
    (app / "own" / "settings.json").write_text(json.dumps(said))
    deployed = sample_values() | {"SLUICE_ROOMS": "", "SLUICE_PERMIT_TASKS": "4"}
    line = 'sluice.setting.undeployed {"setting":"SLUICE_ROOMS","file":"team-a","deployed":""}'
    assert line not in loaded(app, **deployed)
    identity = {
        name: text
        for name, text in deployed.items()
        if name not in ("AzureWebJobsStorage", "SluiceStorage", "SluiceBus")
    } | {"SluiceStorage__accountName": "a", "SluiceBus__fullyQualifiedNamespace": "b.servicebus.windows.net"}
    assert line in loaded(app, **identity, **AZURE)
