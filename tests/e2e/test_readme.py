"""The README's tutorial, typed as it stands."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from local.paths import ROOT

SLUICE = Path(sys.executable).parent / "sluice"
TUTORIAL = re.search(r"## A first job\n.*?```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]


def test_the_tutorial_runs_as_it_stands(app_host, stack_settings, tmp_path):
    """Every command of it succeeds in order, and the job is complete with its one reject."""
    script = TUTORIAL.replace(".venv/bin/sluice", str(SLUICE))
    environment = {**os.environ, **stack_settings}
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = subprocess.run(
        [SLUICE, "jobs", "show", "first", "--json"], cwd=tmp_path, env=environment, capture_output=True, check=True
    )
    job = json.loads(shown.stdout)
    assert (job["state"], job["accepted"]["items"], job["rejected"]["items"]) == ("complete", 2, 1)
